package delivery

import (
	"strings"
	"testing"
	"time"

	"ingot/internal/notify"
	"ingot/internal/notify/actions"
)

// A changed partial applies to sends accepted afterwards, and its variants to recipients of that language.
func TestPartials(t *testing.T) {
	t.Parallel()
	people := newPeople(2)
	people.locales = map[string]string{people.order[1]: "de-AT"}
	w := newWorld(t, setup{people: people})
	now := time.Now()
	set := func(text string) {
		t.Helper()
		now = now.Add(time.Second)
		if err := w.store.SetPartial(t.Context(), notify.Partial{Owner: "shop", Name: "footer", Text: text,
			Variants: map[string]notify.Variant{"de": {Text: "DE " + text}}, Created: now, Updated: now}); err != nil {
			t.Fatal(err)
		}
	}
	set("first")
	if err := w.store.CreateTemplate(t.Context(), notify.Template{ID: "t", Creator: "shop", Name: "t",
		Subject: "{{.Subject}}", Text: `{{.Text}} {{template "footer" .}}`, Updated: now}); err != nil {
		t.Fatal(err)
	}
	w.start()
	for _, text := range []string{"first", "second"} {
		set(text)
		before := len(w.post.all())
		w.finish(w.send(to(notify.ToEveryone, ""), func(r *actions.Request) { r.Template = "t" }))
		got := w.post.all()[before:]
		if len(got) != 2 {
			t.Fatalf("%d messages, want 2", len(got))
		}
		for _, o := range got {
			want := " " + text
			if o.To == people.emails[people.order[1]] {
				want = " DE " + text
			}
			if !strings.HasSuffix(o.Body.Text, want) {
				t.Errorf("%s got %q, want %q at the end", o.To, o.Body.Text, want)
			}
		}
	}
}
