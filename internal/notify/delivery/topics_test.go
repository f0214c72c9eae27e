package delivery

import (
	"testing"

	"ingot/internal/notify"
	"ingot/internal/notify/actions"
)

// TestTopic sends to the subscribers of a topic, of whom some have left it, and some do not want the kind.
func TestTopic(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{people: newPeople(1203), change: func(o *Options) { o.Chunk = 200 }})
	ref := notify.TopicRef{ClientID: "shop", Name: "releases"}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	set := func(name string, subscribers ...string) {
		t.Helper()
		ref := notify.TopicRef{ClientID: ref.ClientID, Name: name}
		_, err := w.store.SetTopic(t.Context(), notify.Topic{TopicRef: ref})
		must(err)
		_, err = w.store.Subscribe(t.Context(), ref, subscribers)
		must(err)
	}
	set("releases", append([]string{"mailto:dora@example.com"}, w.people.order...)...)
	set("empty")
	left, off := w.people.order[3], w.people.order[4]
	must(w.store.ChangePreferences(t.Context(), left,
		notify.PreferenceChange{Topics: map[notify.TopicRef]bool{ref: false}}))
	all := true
	must(w.store.ChangePreferences(t.Context(), off, notify.PreferenceChange{Global: &all}))
	async := func(r *actions.Request) { r.Client, r.Async = "shop", true }
	w.start()
	send := w.send(to(notify.ToTopic, "releases"), async)
	if got := w.finish(send); got.Total != 1203 || got.Delivered != 1202 || got.Unsubscribed != 1 {
		t.Errorf("counts are %+v, want 1203, of which 1 is unsubscribed", got)
	}
	if got := w.finish(w.send(to(notify.ToTopic, "empty"), async)); got.Total != 0 {
		t.Errorf("counts of a topic without subscribers are %+v", got)
	}
	critical := w.send(to(notify.ToTopic, "releases"), async, func(r *actions.Request) {
		r.KindID, r.MayCritical = "alarm", true
	})
	if got := w.finish(critical); got.Total != 1203 || got.Delivered != 1203 {
		t.Errorf("counts of a critical kind are %+v, want 1203 delivered", got)
	}
	once := map[string]int{}
	for _, o := range w.post.all() {
		once[o.To]++
	}
	for address, n := range once {
		if n > 2 {
			t.Errorf("%s got %d messages", address, n)
		}
	}
	if once[w.people.emails[left]] != 0 || once["dora@example.com"] != 2 || once[w.people.emails[off]] != 1 {
		t.Errorf("who left got %d messages, the address %d, who wants none %d", once[w.people.emails[left]],
			once["dora@example.com"], once[w.people.emails[off]])
	}
}
