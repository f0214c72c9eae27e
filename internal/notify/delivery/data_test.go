package delivery

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"ingot/internal/notify"
	"ingot/internal/notify/actions"
)

// each returns members with their own data.
func each(n int, make func(i int) notify.Member) iter.Seq2[notify.Member, error] {
	return func(yield func(notify.Member, error) bool) {
		for i := range n {
			if !yield(make(i), nil) {
				return
			}
		}
	}
}

// Each member of a list gets a message with its data over that of the send, once.
func TestListWithData(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t, setup{people: newPeople(3000), change: func(o *Options) { o.Chunk = 500 }})
	if err := w.store.CreateTemplate(ctx, notify.Template{
		ID: "t", Name: "t", Subject: "{{.Data.shop}}: {{.Data.name}}", Updated: time.Now(),
		Text: `{{.Endorsement}} {{number .Data.total}}{{range .Data.items}} {{.}}{{end}}`,
		HTML: "<p>{{.Data.name}}</p>",
	}); err != nil {
		t.Fatal(err)
	}
	const many = 2611
	member := func(i int) notify.Member {
		m := notify.Member{UserID: w.people.order[i],
			Data: json.RawMessage(fmt.Sprintf(`{"name":"n%d <i>","items":[%d,true]}`, i, i))}
		switch {
		case i == 1:
			m.UserID, m.Email = "", "Someone@example.com"
		case i == 2:
			m.Data = json.RawMessage(`{"name":"n2 <i>","shop":"own","items":[]}`)
		case i == 3:
			m.Locale = "en"
		}
		return m
	}
	send := w.send(func(r *actions.Request) {
		r.Audiences = []notify.Audience{{Type: notify.ToList}}
		r.Members = each(many+10, func(i int) notify.Member { return member(i % many) }) // ten are named again
		r.Data, r.Locale, r.Template = json.RawMessage(`{"shop":"ours","total":1234.5}`), "de", "t"
		r.Content = notify.Content{}
	})
	w.start()
	if got := w.finish(send); got.Delivered != many || got.Total != many {
		t.Fatalf("counts are %+v, want all %d delivered", got, many)
	}
	seen := map[string]notify.Outgoing{}
	for _, o := range w.post.all() {
		seen[o.To] = o
	}
	if len(seen) != many || len(w.post.all()) != many {
		t.Fatalf("%d addresses got %d messages", len(seen), len(w.post.all()))
	}
	for i, want := range map[int]string{
		0: "This message was sent directly to you. 1.234,5 0 true",
		1: "This message was sent directly to your email address. 1.234,5 1 true",
		2: "This message was sent directly to you. 1.234,5", 3: "This message was sent directly to you. 1,234.5 3 true",
		many - 1: fmt.Sprintf("This message was sent directly to you. 1.234,5 %d true", many-1),
	} {
		address, subject := w.people.emails[w.people.order[i]], "ours"
		switch i {
		case 1:
			address = "Someone@example.com"
		case 2:
			subject = "own"
		}
		body := seen[address].Body
		if body == nil {
			t.Errorf("%s got nothing", address)
			continue
		}
		if body.Text != want || body.Subject != fmt.Sprintf("%s: n%d <i>", subject, i) ||
			!strings.Contains(body.HTML, fmt.Sprintf("<p>n%d &lt;i&gt;</p>", i)) {
			t.Errorf("%s got %+v, want %s", address, body, want)
		}
	}
}

// Members share a body if the template shows nothing of their data.
func TestListSharesBodies(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{people: newPeople(900)})
	send := w.send(func(r *actions.Request) {
		r.Audiences = []notify.Audience{{Type: notify.ToList}}
		r.Members = each(900, func(i int) notify.Member {
			if i%2 == 0 {
				return notify.Member{UserID: w.people.order[i], Data: json.RawMessage(`{"a":1}`)}
			}
			return notify.Member{Email: fmt.Sprintf("a%d@example.com", i)}
		})
	})
	w.start()
	w.finish(send)
	bodies := map[*notify.Body]bool{}
	for _, o := range w.post.all() {
		bodies[o.Body] = true
	}
	if len(bodies) > 16 { // two, unless workers render one at the same time
		t.Errorf("%d bodies", len(bodies))
	}
}

// A send that is refused leaves no list behind, and nothing is sent.
func TestListRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	for want, member := range map[string]func(i int) notify.Member{
		`recipient 301 needs either "user" or "email"`: func(int) notify.Member { return notify.Member{} },
		`"data" that must be an object`: func(int) notify.Member {
			return notify.Member{UserID: "u", Data: json.RawMessage(`[1]`)}
		},
		`not a valid address`:   func(int) notify.Member { return notify.Member{Email: "a b@example.com"} },
		`is not a language tag`: func(int) notify.Member { return notify.Member{UserID: "u", Locale: "not a tag"} },
		`nested more than 20 levels`: func(int) notify.Member {
			return notify.Member{UserID: "u", Data: json.RawMessage(`{"a":` + strings.Repeat("[", 30) +
				strings.Repeat("]", 30) + `}`)}
		},
		`at most 16384 are allowed`: func(int) notify.Member {
			return notify.Member{UserID: "u", Data: json.RawMessage(`{"a":"` + strings.Repeat("x", 17_000) + `"}`)}
		},
		"contains a NUL": func(int) notify.Member {
			return notify.Member{UserID: "u", Data: json.RawMessage(`{"a":"\u0000"}`)}
		},
	} {
		_, err := w.service.Send(t.Context(), actions.Request{
			Client: "shop", KindID: "news", Audiences: []notify.Audience{{Type: notify.ToList}},
			Members: each(301, func(i int) notify.Member {
				if i == 300 {
					return member(i)
				}
				return notify.Member{UserID: fmt.Sprintf("user-%d", i)}
			}),
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if n, err := w.store.Waiting(t.Context()); err != nil || n != 0 {
		t.Errorf("%d messages wait (%v)", n, err)
	}
}
