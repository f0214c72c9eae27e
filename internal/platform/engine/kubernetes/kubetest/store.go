//go:build linux

package kubetest

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// object is an object of the API as decoded JSON.
type object = map[string]any

// event is a change of an object, for watches.
type event struct {
	version  int64
	resource string
	kind     string // ADDED, MODIFIED, DELETED
	object   []byte
	labels   map[string]any
}

// store has the objects of a cluster and their latest events.
type store struct {
	mu      sync.Mutex
	version int64
	objects map[string]object // by resource/name
	events  []event
	oldest  int64         // events up to this version are gone
	changed chan struct{} // closed and replaced by every change
}

func newStore() *store {
	return &store{version: 100, objects: map[string]object{}, changed: make(chan struct{})}
}

// put stores an object, and reports whether it could be: create needs one that does not
// exist, a change one that does. f gets a copy of the object, to change it.
func (s *store) put(resource, name string, create bool, f func(object)) (object, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, exists := s.objects[resource+"/"+name]
	if exists == create {
		return nil, false
	}
	o, kind := object{}, "ADDED"
	if exists {
		o, kind = clone(old), "MODIFIED"
	}
	f(o)
	s.add(kind, resource, name, o)
	s.objects[resource+"/"+name] = o
	return o, true
}

// remove deletes an object with this uid.
func (s *store) remove(resource, name, uid string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, exists := s.objects[resource+"/"+name]
	if !exists || uid != "" && text(o, "metadata", "uid") != uid {
		return false
	}
	delete(s.objects, resource+"/"+name)
	s.add("DELETED", resource, name, clone(o))
	return true
}

func (s *store) add(kind, resource, name string, o object) {
	s.version++
	set(o, strconv.FormatInt(s.version, 10), "metadata", "resourceVersion")
	set(o, name, "metadata", "name")
	labels, _ := get(o, "metadata", "labels").(map[string]any)
	s.events = append(s.events, event{version: s.version, resource: resource, kind: kind, object: encode(o),
		labels: labels})
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *store) get(resource, name string) (object, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.objects[resource+"/"+name]
	return o, ok
}

// list returns the objects of a resource by name, and the version of the list.
func (s *store) list(resource, selector string) ([]any, int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := []any{}
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		labels, _ := get(s.objects[key], "metadata", "labels").(map[string]any)
		if strings.HasPrefix(key, resource+"/") && selects(selector, labels) {
			found = append(found, s.objects[key])
		}
	}
	return found, s.version
}

// since returns the events after a version, and a channel that is closed by the next
// change. It returns false if the events are gone.
func (s *store) since(resource, selector string, version int64) (found []event, last int64,
	changed <-chan struct{}, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if version < s.oldest {
		return nil, 0, nil, false
	}
	for _, e := range s.events {
		if e.version > version && e.resource == resource && selects(selector, e.labels) {
			found = append(found, e)
		}
	}
	return found, s.version, s.changed, true
}

// compact forgets all events, as etcd does after some minutes.
func (s *store) compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	s.events, s.oldest = nil, s.version
}

// selects reports whether labels match a selector of the form a=b,c.
func selects(selector string, labels map[string]any) bool {
	for part := range strings.SplitSeq(selector, ",") {
		key, value, valued := strings.Cut(part, "=")
		got, has := labels[key]
		if part != "" && (!has || valued && got != value) {
			return false
		}
	}
	return true
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // decoded JSON
	}
	return b
}

func clone(o object) object {
	var c object
	if err := json.Unmarshal(encode(o), &c); err != nil {
		panic(err)
	}
	return c
}

// get returns a value inside an object; nil if it does not exist.
func get(o any, path ...string) any {
	for _, key := range path {
		m, ok := o.(map[string]any)
		if !ok {
			return nil
		}
		o = m[key]
	}
	return o
}

func text(o any, path ...string) string {
	s, _ := get(o, path...).(string)
	return s
}

// set sets a value inside an object; nil removes it.
func set(o object, value any, path ...string) {
	for _, key := range path[:len(path)-1] {
		inner, ok := o[key].(map[string]any)
		if !ok {
			inner = object{}
			o[key] = inner
		}
		o = inner
	}
	if value == nil {
		delete(o, path[len(path)-1])
		return
	}
	o[path[len(path)-1]] = value
}

func now() string { return time.Now().UTC().Format(time.RFC3339) }
