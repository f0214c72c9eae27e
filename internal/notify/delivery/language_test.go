package delivery

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"ingot/internal/notify"
	"ingot/internal/notify/actions"
)

// localized stores a template in three languages.
func localized(t *testing.T, w *world) {
	t.Helper()
	now := time.Now()
	if err := w.store.CreateTemplate(t.Context(), notify.Template{ID: "t", Name: "t", Subject: "Hello",
		Text: `{{number 1 .Data.n}} {{plural .Data.n "one" "file" "other" "files"}}`, Updated: now}); err != nil {
		t.Fatal(err)
	}
	for locale, v := range map[string]notify.Variant{
		"de":      {Subject: "Hallo", Text: `{{number 1 .Data.n}} {{plural .Data.n "one" "Datei" "other" "Dateien"}}`},
		"pt-BR":   {Subject: "Olá"},
		"zh-Hant": {Subject: "你好"},
	} {
		if err := w.store.SetVariant(t.Context(), "t", locale, &v, now, "ann"); err != nil {
			t.Fatal(err)
		}
	}
}

// A recipient gets the variant of the language that the sender gave, the user has, or the send has.
func TestVariants(t *testing.T) {
	t.Parallel()
	people := newPeople(6)
	people.locales = map[string]string{people.order[0]: "de-CH", people.order[1]: "fr", people.order[2]: "pt_BR",
		people.order[3]: "not a language", people.order[4]: "de"}
	w := newWorld(t, setup{people: people})
	localized(t, w)
	with := func(locale string) func(*actions.Request) {
		return func(r *actions.Request) {
			r.Template, r.Data, r.Locale, r.WithData = "t", json.RawMessage(`{"n":1234.5}`), locale, true
			r.Content = notify.Content{}
		}
	}
	toList := w.send(with("zh-TW"), func(r *actions.Request) {
		r.Audiences = []notify.Audience{{Type: notify.ToList}}
		r.Members = each(4, func(i int) notify.Member {
			return []notify.Member{{UserID: people.order[4], Locale: "pt-BR"}, {UserID: people.order[0]},
				{Email: "a@example.com", Locale: "de-AT"}, {Email: "b@example.com"}}[i]
		})
	})
	w.start()
	w.finish(toList)
	check := func(want map[string][2]string) {
		t.Helper()
		got := map[string]notify.Outgoing{}
		for _, o := range w.post.all() {
			got[o.To] = o
		}
		for to, parts := range want {
			if body := got[to].Body; body == nil || body.Subject != parts[0] || body.Text != parts[1] {
				t.Errorf("%s got %+v, want %q", to, body, parts)
			}
		}
	}
	check(map[string][2]string{
		people.emails[people.order[4]]: {"Olá", "1.234,5 files"}, // numbers follow the variant
		people.emails[people.order[0]]: {"Hallo", "1.234,5 Dateien"},
		"a@example.com":                {"Hallo", "1.234,5 Dateien"}, "b@example.com": {"你好", "1,234.5 files"},
	})
	w.finish(w.send(with(""), to(notify.ToEveryone, "")))
	check(map[string][2]string{
		people.emails[people.order[0]]: {"Hallo", "1.234,5 Dateien"},
		people.emails[people.order[1]]: {"Hello", "1\u00a0234,5 files"}, // no variant: the template's own text
		people.emails[people.order[2]]: {"Olá", "1.234,5 files"},
		people.emails[people.order[3]]: {"Hello", "1,234.5 files"},
		people.emails[people.order[4]]: {"Hallo", "1.234,5 Dateien"},
		people.emails[people.order[5]]: {"Hello", "1,234.5 files"},
	})
}

// Messages whose language cannot be looked up wait; others are not even asked about.
func TestLanguagesWait(t *testing.T) {
	t.Parallel()
	people := newPeople(3)
	people.locales = map[string]string{people.order[0]: "de"}
	w := newWorld(t, setup{people: people})
	localized(t, w)
	plain := w.send(to(notify.ToEveryone, ""))
	send := w.send(to(notify.ToEveryone, ""), func(r *actions.Request) { r.Template = "t" })
	people.set(errors.New("down"))
	w.start()
	if got := w.finish(plain); got.Delivered != 3 {
		t.Errorf("without variants: %+v", got)
	}
	w.store.until(t, "messages wait for the authorization server", func() bool { return w.counts(send).Retry == 3 })
	people.set(nil)
	if got := w.finish(send); got.Delivered != 3 {
		t.Errorf("with variants: %+v", got)
	}
}
