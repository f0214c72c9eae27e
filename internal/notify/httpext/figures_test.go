package httpext_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"ingot/internal/notify"
)

// figures is the answer of GET /figures.
type figures struct {
	By, Period  string
	Times       []time.Time
	Total, Rest map[string][]int64
	Groups      []struct {
		Client  string `json:"client_id"`
		Kind    string `json:"kind_id"`
		Channel string
		Domain  *string
		Version int64 `json:"template_version"`
		Figures map[string][]int64
	}
}

func (f figures) last(of map[string][]int64, what string) int64 { return of[what][len(f.Times)-1] }

// TestFigures asks for figures in all ways, of all clients, and with wrong parameters.
func TestFigures(t *testing.T) {
	t.Parallel()
	w, _ := world(t)
	c, other := w.Client("shop", "notifications.write"), w.Client("other", "notifications.manage")
	admin := w.Client("admin", "notifications.admin")
	for client, domains := range map[string][]string{
		"shop": {"one.example", "one.example", "<b>.example"}, "other": {"x"},
	} {
		n := notify.NewSend{Send: notify.Send{ClientID: client, KindID: "<i>", Received: time.Now(), Expanded: true,
			Audiences: []notify.Audience{{Type: notify.ToUser, ID: "u"}}}}
		for i, domain := range domains {
			n.Recipients = append(n.Recipients, notify.Recipient{Email: strings.Repeat("a", i+1) + "@" + domain})
		}
		if _, _, err := w.Store.Accept(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		claimed, err := w.Store.Claim(t.Context(), "w", 10, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		var outcomes []notify.Outcome
		for _, m := range claimed {
			outcomes = append(outcomes, notify.Outcome{Number: m.Number, Status: notify.Delivered, Attempted: true,
				At: time.Now(), TemplateID: "t", TemplateVersion: 7})
		}
		if _, err := w.Store.Finish(t.Context(), outcomes, nil); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(version int, token, query string) (f figures) {
		t.Helper()
		w.Expect(version, token, "GET", "/figures"+query, "", 200, "").Into(&f)
		return f
	}
	f := ask(1, c, "")
	if f.By != "kind" || f.Period != "day" || len(f.Times) != 30 || f.last(f.Total, "delivered") != 3 ||
		len(f.Groups) != 1 || f.Groups[0].Kind != "<i>" || f.Groups[0].Client != "shop" {
		t.Errorf("by default: %+v", f)
	}
	f = ask(2, c, "?by=domain&period=hour&groups=1")
	if len(f.Times) != 48 || len(f.Groups) != 1 || *f.Groups[0].Domain != "one.example" ||
		f.last(f.Groups[0].Figures, "accepted") != 2 || f.last(f.Rest, "accepted") != 1 {
		t.Errorf("by domain: %+v", f)
	}
	f = ask(1, c, "?by=domain&domain="+url.QueryEscape("<b>.example"))
	if len(f.Groups) != 1 || f.last(f.Total, "accepted") != 1 || *f.Groups[0].Domain != "<b>.example" {
		t.Errorf("of a domain: %+v", f)
	}
	if f = ask(1, c, "?by=template&last=1&template_id=t&kind_id=%3Ci%3E"); f.Groups[0].Version != 7 || len(f.Times) != 1 {
		t.Errorf("by template: %+v", f)
	}
	if f = ask(1, c, "?by=channel&channel=inbox"); len(f.Groups) != 0 || f.last(f.Total, "accepted") != 0 {
		t.Errorf("of a channel without messages: %+v", f)
	}
	if f = ask(1, other, ""); f.last(f.Total, "accepted") != 1 || len(f.Groups) != 1 {
		t.Errorf("of another client: %+v", f)
	}
	if f = ask(1, admin, "?client_id=*"); f.last(f.Total, "accepted") != 4 || len(f.Groups) != 2 {
		t.Errorf("of all clients: %+v", f)
	}
	if f = ask(1, admin, "?client_id=other"); f.last(f.Total, "accepted") != 1 {
		t.Errorf("of a client, by an administrator: %+v", f)
	}
	for query, status := range map[string]int{
		"?by=user": 400, "?period=week": 400, "?last=91": 400, "?period=hour&last=49": 400, "?last=0": 400,
		"?groups=101": 400, "?groups=x": 400, "?channel=pigeon": 400, "?user_id=x": 400,
		"?client_id=other": 403, "?client_id=*": 403, "?domain=%00": 422,
	} {
		w.Expect(1, c, "GET", "/figures"+query, "", status, "")
	}
	w.Expect(1, w.Client("reader", "notification_templates.read"), "GET", "/figures", "", 403, "")
	w.Expect(1, "", "GET", "/figures", "", 401, "")
}
