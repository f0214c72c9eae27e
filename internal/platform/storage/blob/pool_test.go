package blob_test

import (
	"bytes"
	"crypto/sha1"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/platform/storage/blob"
)

func content(char string, size int) []byte { return bytes.Repeat([]byte(char), size) }

func resource(content []byte) blob.Resource {
	return blob.Resource{SHA1: fmt.Sprintf("%x", sha1.Sum(content)), Size: int64(len(content))}
}

func (b bundle) add(t *testing.T, scope string, fsys fs.FS, want int) {
	t.Helper()
	if got, err := b.store.AddResources(b.ctx, scope, fsys); err != nil || got != want {
		t.Fatalf("added %d, %v; want %d", got, err, want)
	}
}

func (b bundle) match(t *testing.T, scope string, all ...blob.Resource) []blob.Resource {
	t.Helper()
	got, err := b.store.Match(b.ctx, scope, all)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// size is the sum of the sizes of all resources.
func (b bundle) size() (sum int64, err error) {
	for item, err := range b.store.List(b.ctx, blob.Resources) {
		if err != nil {
			return 0, err
		}
		sum += item.Size
	}
	return sum, nil
}

func TestResources(t *testing.T) {
	t.Parallel()
	b := setup(t, blob.PoolLimits{MaxFile: 100_000})
	one, two, tiny, huge := content("a", 5000), content("b", 6000), content("c", 4095), content("d", 100_001)
	b.add(t, "uaa/anna", fstest.MapFS{
		"x/one": {Data: one}, "two": {Data: two}, "tiny": {Data: tiny}, "huge": {Data: huge}, "same": {Data: one},
		"link": {Data: []byte("x/one"), Mode: fs.ModeSymlink},
	}, 2)
	b.add(t, "uaa/anna", fstest.MapFS{"one": {Data: one}}, 0)

	upper := blob.Resource{SHA1: strings.ToUpper(resource(two).SHA1), Size: 6000}
	wrongSize := blob.Resource{SHA1: resource(one).SHA1, Size: 5001}
	odd := []blob.Resource{{}, {SHA1: "../../etc/passwd", Size: 5000}, {SHA1: strings.Repeat("z", 40), Size: 5000},
		{SHA1: resource(one).SHA1, Size: -1}}
	asked := append([]blob.Resource{resource(tiny), resource(huge), upper, wrongSize, resource(one),
		resource([]byte("none"))}, odd...)
	if got, want := b.match(t, "uaa/anna", asked...), []blob.Resource{upper, resource(one)}; !slices.Equal(got, want) {
		t.Errorf("matched %v, want %v", got, want)
	}
	r, err := b.store.OpenResource(b.ctx, "uaa/anna", upper)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); !bytes.Equal(got, two) || err != nil {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
	for _, o := range append(odd, wrongSize, resource(tiny)) {
		if _, err := b.store.OpenResource(b.ctx, "uaa/anna", o); !fault.Is(err, fault.NotFound) {
			t.Errorf("opening %v: error is %v, want %s", o, err, fault.NotFound)
		}
	}

	// Another scope neither learns of these files nor gets them.
	for _, scope := range []string{"uaa/berta", ""} {
		if got := b.match(t, scope, resource(one)); got != nil {
			t.Errorf("%q matched %v", scope, got)
		}
		if _, err := b.store.OpenResource(b.ctx, scope, resource(one)); !fault.Is(err, fault.NotFound) {
			t.Errorf("opening in scope %q: error is %v, want %s", scope, err, fault.NotFound)
		}
	}
	if _, err := b.store.AddResources(b.ctx, "", fstest.MapFS{"one": {Data: one}}); err == nil {
		t.Error("added without a scope")
	}
}

func TestDamagedResource(t *testing.T) {
	t.Parallel()
	b := setup(t, blob.PoolLimits{})
	one := content("a", 5000)
	files := fstest.MapFS{"one": {Data: one}}
	for what, spoil := range map[string]func(string) error{
		"changed": func(name string) error {
			f, err := os.OpenFile(name, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteAt([]byte("X"), 100)
			return errors.Join(err, f.Close())
		},
		"cut off": func(name string) error { return os.Truncate(name, 0) },
		"zeroes":  func(name string) error { return errors.Join(os.Truncate(name, 0), os.Truncate(name, 5072)) },
	} {
		b.add(t, "me", files, 1)
		all, err := filepath.Glob(filepath.Join(b.dir, "resources", "*"))
		if err != nil || len(all) != 1 {
			t.Fatalf("resources are %v, %v, want 1", all, err)
		}
		if err := spoil(all[0]); err != nil {
			t.Fatal(err)
		}
		if r, err := b.store.OpenResource(b.ctx, "me", resource(one)); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: opened %v, %v", what, r, err)
		}
		if got := b.match(t, "me", resource(one)); got != nil {
			t.Errorf("%s: still matched", what)
		}
	}
}

func TestPoolDropsWhatWasNotUsed(t *testing.T) {
	t.Parallel()
	const size = 10_000
	b := setup(t, blob.PoolLimits{Size: 10 * size})
	var all []blob.Resource
	for i := range 10 {
		data := content(string(rune('a'+i)), size)
		all = append(all, resource(data))
		b.add(t, "me", fstest.MapFS{"f": {Data: data}}, 1)
	}
	// The first three are the oldest, then the first is used.
	names, err := filepath.Glob(filepath.Join(b.dir, "resources", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		age := time.Now().Add(-time.Hour)
		for i, r := range all {
			if strings.Contains(name, r.SHA1) {
				age = age.Add(time.Duration(i) * time.Minute)
			}
		}
		if err := os.Chtimes(name, age, age); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.match(t, "me", all[0]); len(got) != 1 {
		t.Fatal("the first is gone")
	}
	last := content("z", size)
	b.add(t, "you", fstest.MapFS{"f": {Data: last}}, 1)
	want := append([]blob.Resource{all[0]}, all[3:]...)
	if got := b.match(t, "me", all...); !slices.Equal(got, want) {
		t.Errorf("kept %v, want %v", got, want)
	}
	if got := b.match(t, "you", resource(last)); len(got) != 1 {
		t.Error("the new one is not there")
	}
	if size, err := b.size(); err != nil || size > 100_000 {
		t.Errorf("size %d, %v", size, err)
	}
}

func TestPoolAtTheSameTime(t *testing.T) {
	t.Parallel()
	b := setup(t, blob.PoolLimits{Size: 200_000})
	var group sync.WaitGroup
	for i := range 6 {
		group.Go(func() {
			for j := range 15 {
				data := content(string(rune('a'+(i+j)%10)), 10_000+j)
				if _, err := b.store.AddResources(b.ctx, "me", fstest.MapFS{"f": {Data: data}}); err != nil {
					t.Error(err)
				}
				if len(b.match(t, "me", resource(data))) == 0 {
					continue // already dropped
				}
				r, err := b.store.OpenResource(b.ctx, "me", resource(data))
				if fault.Is(err, fault.NotFound) {
					continue
				}
				if err != nil {
					t.Error(err)
					continue
				}
				if got, err := io.ReadAll(r); !bytes.Equal(got, data) || err != nil {
					t.Errorf("got %d bytes, %v", len(got), err)
				}
				r.Close()
			}
		})
	}
	group.Wait()
	// Files written at the same moment may be over for a while, not more.
	if size, err := b.size(); err != nil || size > 200_000+6*11_000 {
		t.Errorf("size %d, %v", size, err)
	}
	for _, name := range b.files(t) {
		if !strings.HasPrefix(name, "resources/") {
			t.Errorf("left: %s", name)
		}
	}
}
