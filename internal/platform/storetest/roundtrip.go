package storetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ingot/internal/platform"
)

// testRoundTrip stores every field of every noun. The values are made by
// reflection, so that a field that is added and forgotten by a store fails.
func testRoundTrip(k *kit) {
	for _, n := range []interface{ roundTrip(k *kit) }{
		organizations, spaces, orgQuotas, spaceQuotas, segments, secGroups, policies, users, roles, domains, routes,
		destinations, apps, processes, sidecars, packages, builds, droplets, deployments, revisions, tasks,
		instances, instanceRestarts, buildpacks, stacks, auditEvents, jobs, appUsageEvents, serviceUsageEvents,
		serviceBrokers, serviceOfferings, servicePlans, serviceInstances, serviceBindings, rotations,
	} {
		n.roundTrip(k)
	}
}

func (n noun[T]) roundTrip(k *kit) {
	k.Run(reflect.TypeFor[T]().Name(), func(t *testing.T) { //nolint:paralleltest // they share one store, to see that nouns are kept apart
		k := k.sub(t)
		first, second, third := filled[T](1), filled[T](2), filled[T](3)
		want := filled[T](1)
		n.insert(k, first, second)
		same(k, "inserted", want, first)
		same(k, "stored", want, n.get(k, n.base(want).GUID))

		// Everything but the guid is changed.
		guid := n.base(first).GUID
		n.base(third).GUID = guid
		given := n.base(third).Updated
		k.update(func(tx platform.Tx) error { return n.repo(tx).Update(third) })
		got := n.get(k, guid)
		same(k, "updated", third, got)
		if n.base(got).Updated.Equal(given) || time.Since(n.base(got).Updated).Abs() > time.Minute {
			k.Errorf("updated at %v, want now", n.base(got).Updated)
		}
		same(k, "the other", filled[T](2), n.get(k, n.base(second).GUID))

		// All fields may be taken back.
		empty := new(T)
		n.base(empty).GUID, n.base(empty).Created = guid, moment
		k.update(func(tx platform.Tx) error { return n.repo(tx).Update(empty) })
		same(k, "emptied", empty, n.get(k, guid))

		k.update(func(tx platform.Tx) error { return n.repo(tx).Delete(guid) })
		n.expect(k, platform.Query{}, "what is left", n.base(second).GUID)

		// What is not given is filled in.
		before := time.Now()
		fresh := new(T)
		n.insert(k, fresh)
		base := n.base(fresh)
		if base.GUID == "" || base.Created.Before(before.Add(-time.Second)) || base.Updated.Before(base.Created) {
			k.Errorf("filled in: %+v", base)
		}
		same(k, "fresh", fresh, n.get(k, base.GUID))
		k.update(func(tx platform.Tx) error { _, err := n.repo(tx).DeleteAll(platform.Query{}); return err })
		n.expect(k, platform.Query{}, "after all were deleted")
	})
}

// testWithoutSecrets sees that secrets are left out where they are not asked for,
// and nothing else.
func testWithoutSecrets(k *kit) {
	withoutSecrets(k, "Task", tasks, func(t *platform.Task) { t.Command = "" })
	withoutSecrets(k, "Revision", revisions, func(r *platform.Revision) { r.Env, r.Options = nil, nil })
	withoutSecrets(k, "App", apps, func(a *platform.App) { a.Env = nil })
	withoutSecrets(k, "ServiceBinding", serviceBindings, func(b *platform.ServiceBinding) { b.Credentials = nil })
	withoutSecrets(k, "Space", spaces, func(*platform.Space) {})
}

func withoutSecrets[T any](k *kit, name string, n noun[T], hide func(*T)) {
	k.Run(name, func(t *testing.T) { //nolint:paralleltest // they share one store
		k := k.sub(t)
		n.insert(k, filled[T](1))
		want := filled[T](1)
		hide(want)
		k.view(func(tx platform.Tx) error {
			list, total, err := n.repo(tx).List(platform.Query{WithoutSecrets: true})
			if err != nil {
				return err
			}
			if len(list) != 1 || total != 1 {
				k.Fatalf("%d of %d are listed, want 1", len(list), total)
			}
			same(k, "listed", want, list[0])
			first, err := n.repo(tx).First(platform.Query{WithoutSecrets: true})
			if err == nil {
				same(k, "first", want, first)
			}
			return err
		})
		same(k, "whole", filled[T](1), n.get(k, n.base(want).GUID))
	})
}

// same compares all fields. Numbers of unknown type may change their Go type
// but not a digit.
func same[T any](k *kit, what string, want, got *T) {
	k.Helper()
	data := cmp.Comparer(func(a, b map[string]any) bool {
		x, errX := json.Marshal(a)
		y, errY := json.Marshal(b)
		return errX == nil && errY == nil && bytes.Equal(x, y)
	})
	if diff := cmp.Diff(want, got, data); diff != "" {
		k.Errorf("%s differs (-want +got):\n%s", what, diff)
	}
	if zone := fmt.Sprint(reflect.ValueOf(got).Elem().FieldByName("Created").Interface().(time.Time).
		Location()); zone != "UTC" {
		k.Errorf("%s: times are in %s", what, zone)
	}
}

// filled returns a T of which no field is zero (booleans alternate), and which
// has no value in common with one of another seed.
func filled[T any](seed int) *T {
	v := new(T)
	f := filler{seed: seed}
	f.fill(reflect.ValueOf(v).Elem(), "")
	return v
}

type filler struct{ seed, n int }

func (f *filler) fill(v reflect.Value, path string) {
	f.n++
	unique := f.seed*1000 + f.n
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(moment.Add(time.Duration(unique))))
		return
	case map[string]any:
		v.Set(reflect.ValueOf(map[string]any{
			"text": fmt.Sprint(path, unique), "number": json.Number(fmt.Sprint(1700000000000000000 + unique)), "on": true,
			"list": []any{"a", json.Number("1.5"), nil}, "more": map[string]any{"<": "&"},
		}))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			f.fill(v.Field(i), path+"."+v.Type().Field(i).Name)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem(), path)
	case reflect.String:
		v.SetString(fmt.Sprintf("%s-%d é '\"%%_\\", path[1:], unique))
	case reflect.Int:
		v.SetInt(int64(unique))
	case reflect.Int64:
		v.SetInt(int64(unique) << 40)
	case reflect.Uint64:
		v.SetUint(1<<63 + uint64(unique))
	case reflect.Bool:
		v.SetBool(f.seed%2 == 1)
	case reflect.Slice:
		s := reflect.MakeSlice(v.Type(), 3, 3)
		for i := range s.Len() {
			if v.Type().Elem().Kind() == reflect.Uint8 {
				s.Index(i).SetUint(uint64(i * f.seed * 77 % 256)) // the first is a NUL
				continue
			}
			f.fill(s.Index(i), path)
		}
		v.Set(s)
	case reflect.Map:
		m := reflect.MakeMap(v.Type())
		for range 3 {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			f.fill(key, path)
			f.fill(value, path)
			m.SetMapIndex(key, value)
		}
		v.Set(m)
	default:
		panic(fmt.Sprintf("%s is a %s: teach the suite to fill it", path, v.Type()))
	}
}
