package audit

import (
	"encoding/json"
	"net/url"
	"testing"
	"time"

	"ingot/internal/base/cfapi"
	"ingot/internal/console/page"
	"ingot/internal/console/pagetest"
)

func TestHarmless(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "shop": "shop", "=1+2": "'=1+2", "+1": "'+1", "-1": "'-1", "@x": "'@x", "\t=1": "'\t=1", "\r=1": "'\r=1",
		"a=1": "a=1", "ä": "ä", `{"a":1}`: `{"a":1}`,
	} {
		if got := harmless(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func TestAuditFilter(t *testing.T) {
	t.Parallel()
	const guid = "6d8e1b0c-5a8f-4f7e-9d0b-0123456789ab"
	for _, test := range []struct {
		query, want string
		local       bool
	}{
		{"", "order_by=-created_at", false},
		{"type=a, b&in=org:x", "order_by=-created_at&organization_guids=x&types=a%2Cb", false},
		{"in=space:x&target=" + guid, "order_by=-created_at&space_guids=x&target_guids=" + guid, false},
		{"target=shop", "order_by=-created_at", true},
		{"actor=ann", "order_by=-created_at", true},
		{"in=elsewhere", "order_by=-created_at", false},
		{"from=2026-01-02T03:04&to=2026-01-02T03:04:05",
			"created_ats%5Bgte%5D=2026-01-02T03%3A04%3A00Z&created_ats%5Blte%5D=2026-01-02T03%3A04%3A05Z&order_by=-created_at",
			false},
		{"from=yesterday", "A time must be like", false},
	} {
		values, err := url.ParseQuery(test.query)
		if err != nil {
			t.Fatal(err)
		}
		f := auditFilterOf(values)
		q, err := f.query()
		got := q.Encode()
		if _, text, ok := page.ProblemOf(err); ok {
			got = text[:min(len(text), len(test.want))]
		}
		if got != test.want || f.local() != test.local {
			t.Errorf("%s becomes %s, %t, want %s, %t", test.query, got, f.local(), test.want, test.local)
		}
	}
	e := &fullEvent{Event: cfapi.Event{Actor: cfapi.Party{GUID: "1", Name: "Ann"},
		Target: cfapi.Party{GUID: guid, Name: "Shop"}}}
	for filter, want := range map[auditFilter]bool{
		{}: true, {Actor: "an"}: true, {Actor: "1"}: true, {Actor: "bob"}: false, {Target: "shop"}: true,
		{Target: guid}: true, {Target: "x"}: false, {Actor: "ann", Target: "x"}: false,
	} {
		if got := filter.keeps(e); got != want {
			t.Errorf("%+v keeps the event: %t, want %t", filter, got, want)
		}
	}
}

func TestEventDetails(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{"": "", "{}": "", "null": "", `{"a":1}`: "{\n  \"a\": 1\n}", "{": "{"} {
		if got := (fullEvent{Event: cfapi.Event{Data: json.RawMessage(raw)}}).details(); got != want {
			t.Errorf("the details of %s are %q, want %q", raw, got, want)
		}
	}
}

// TestPage renders the page with data as its handler has it.
func TestPage(t *testing.T) {
	t.Parallel()
	event := fullEvent{Event: cfapi.Event{CreatedAt: time.Now(), Type: "audit.app.create",
		Target: cfapi.Party{GUID: "g", Type: "app", Name: "shop"}, Data: []byte(`{"a":"<b>"}`)}}
	pagetest.Pages(t, page.New(page.Options{}, page.Load(Files), nil), []pagetest.Page{
		{Template: "audit.html", Data: &auditData{Events: []fullEvent{event}, Pager: pagetest.Pager()},
			Want: []string{"/console/apps/g", "{\n  &#34;a&#34;: &#34;&lt;b&gt;&#34;\n}"}},
	})
}
