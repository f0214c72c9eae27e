package prefer_test

import (
	"encoding/json"
	"fmt"
	"html/template"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"ingot/internal/base/fault"
	"ingot/internal/base/prefer"
)

// stored are preferences with a kind in each state, and texts that try to be markup.
const stored = `{"global_unsubscribe":false,"quiet_hours":{"from":"21:30","to":"06:00","zone":"<b>zone</b>","days":["mon"]},
	"clients":{"a/b":{"kinds":{"k 1":{"description":"<i>One</i>","source_description":"<u>Shop</u>","subscribed":true,
		"channels":{"email":true,"inbox":false}},
	"left":{"description":"Left","source_description":"<u>Shop</u>","subscribed":false,"channels":{"email":false}},
	"room":{"description":"Room","source_description":"Shop","subscribed":true,"channels":{}}},
	"topics":{"t 1":{"description":"<i>T</i>","source_description":"Shop","subscribed":true},"t2":{"subscribed":false}},
	"campaign_types":{"t":{"description":"Offers","source_description":"","subscribed":true,"channels":{"fax":true}}}}}}`

func form(t *testing.T, text string) prefer.Form {
	t.Helper()
	var p prefer.Preferences
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	return prefer.New(p, prefer.View{}, "")
}

func shown(t *testing.T, f prefer.Form) string {
	t.Helper()
	var b strings.Builder
	page, err := template.ParseFS(prefer.Files, "pages/*.html")
	if err == nil {
		err = page.ExecuteTemplate(&b, "prefer", f)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestForm shows each state, and texts as text.
func TestForm(t *testing.T) {
	t.Parallel()
	page := shown(t, form(t, stored))
	for _, want := range []string{
		`value="kind/a%2Fb/k%201"`, "&lt;i&gt;One&lt;/i&gt;", "&lt;u&gt;Shop&lt;/u&gt;", `value="0.email" checked`,
		`name="on" value="0.inbox">`, `name="off" value="0">`, `<legend>Left <span class="badge">unsubscribed</span>`,
		`name="was" value="1"`, `value="type/a%2Fb/t"`, `value="2.fax" checked> <span>by fax`,
		`name="had" value="mon 21:30 06:00 &lt;b&gt;zone&lt;/b&gt;"`, `name="lit" value="0.email"`, `name="form" value="3"`,
		`name="inside" value="topic/a%2Fb/t%201"`, `name="in" value="topic/a%2Fb/t%201" checked> <span>&lt;i&gt;T&lt;/i&gt;`,
		`name="in" value="topic/a%2Fb/t2"> <span>t2`,
		`name="quiet" value="1" checked`, `value="21:30"`, `value="&lt;b&gt;zone&lt;/b&gt;"`, `value="mon" checked`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("%s is not in\n%s", want, page)
		}
	}
	if strings.Contains(page, "Room") || strings.Contains(page, "<b>") || strings.Contains(page, "<script") ||
		strings.Contains(page, `name="lit" value="0.inbox"`) || strings.Contains(page, "wasnone") {
		t.Error(page)
	}
	page = shown(t, prefer.New(prefer.Preferences{}, prefer.View{}, ""))
	if !strings.Contains(page, "You have not received") ||
		!strings.Contains(page, `name="had" value=""`) {
		t.Error(page)
	}
}

// TestRefused shows what was entered again, with the problems.
func TestRefused(t *testing.T) {
	t.Parallel()
	f := form(t, stored)
	f.Refused(url.Values{"kind": {"kind/a%2Fb/left", "kind/a%2Fb/k%201"}, "on": {"0.email", "1.inbox"}, "off": {"1"},
		"lit": {"1.email"}, "topic": {"topic/a%2Fb/t2", "topic/a%2Fb/t%201"}, "in": {"topic/a%2Fb/t2"},
		"inside": {"topic/a%2Fb/t%201"}, "quiet": {"1"},
		"none": {"1"}, "from": {"<s>"}, "day": {"sun"}, "wait": {"sms"}}, "quiet_hours.to: wrong <em>")
	page := shown(t, f)
	for _, want := range []string{
		`role="alert"`, "Quiet hours, to: wrong &lt;em&gt;", `name="on" value="0.email">`, `value="0.inbox" checked`, `value="1.email" checked`,
		`name="in" value="topic/a%2Fb/t2" checked`, `name="in" value="topic/a%2Fb/t%201">`,
		`name="off" value="0" checked`, `name="none" value="1" checked`, `value="&lt;s&gt;"`, `value="sun" checked`,
		`value="sms" checked`, `name="quiet" value="1" checked`, `name="had" value="mon 21:30`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("%s is not in\n%s", want, page)
		}
	}
}

// TestRefusedMeanwhile shows what changed since the page was loaded as it is now, not as the page had it.
func TestRefusedMeanwhile(t *testing.T) {
	t.Parallel()
	old := form(t, stored)
	sent := url.Values{"kind": {"kind/a%2Fb/k%201", "type/a%2Fb/t"}, "shown": {"0.email", "0.inbox", "1.fax"},
		"lit": {"0.email", "1.fax"}, "on": {"0.email", "0.inbox", "1.fax"}, "had": {old.Quiet.Had}, "quiet": {"1"},
		"from": {"21:30"}, "to": {"06:00"}, "zone": {"<b>zone</b>"}, "day": {"mon"}}
	f := form(t, `{"global_unsubscribe":true,"clients":{"a/b":{"kinds":{"k 1":{"subscribed":true,
		"channels":{"email":false,"inbox":false}}},"campaign_types":{"t":{"channels":{"fax":false}}}}}}`)
	f.Refused(sent, "no")
	page := shown(t, f)
	for _, want := range []string{`name="none" value="1" checked`, `name="on" value="0.email">`, `value="0.inbox" checked`,
		`name="on" value="1.fax">`, `name="quiet" value="1">`} {
		if !strings.Contains(page, want) {
			t.Errorf("%s is not in\n%s", want, page)
		}
	}
}

// TestRead makes the change that a form means.
func TestRead(t *testing.T) {
	t.Parallel()
	const one, left, offers = "kind/a%2Fb/k%201", "kind/a%2Fb/left", "type/a%2Fb/t"
	for what, test := range map[string]struct {
		form url.Values
		want string
	}{
		"nothing":     {url.Values{}, `{}`},
		"none at all": {url.Values{"none": {"1"}}, `{"global_unsubscribe":true}`},
		"none stays":  {url.Values{"none": {"1"}, "wasnone": {"1"}}, `{}`},
		"some again":  {url.Values{"wasnone": {"1"}}, `{"global_unsubscribe":false}`},
		"channels": {url.Values{"kind": {one, offers}, "shown": {"0.email", "0.inbox", "1.fax"}, "on": {"0.inbox", "1.fax"},
			"lit": {"0.email"}}, `{"clients":{"a/b":{"kinds":{"k 1":{"channels":{"email":false,"inbox":true}}},` +
			`"campaign_types":{"t":{"channels":{"fax":true}}}}}}`},
		"one of the channels": {url.Values{"kind": {one, offers}, "shown": {"0.email", "0.inbox", "0.sms", "1.fax"},
			"on": {"0.email", "0.sms", "1.fax"}, "lit": {"0.email", "0.inbox", "0.sms", "1.fax"}},
			`{"clients":{"a/b":{"kinds":{"k 1":{"channels":{"inbox":false}}}}}}`},
		"channels as before": {url.Values{"kind": {one, offers}, "shown": {"0.email", "0.inbox", "1.fax"},
			"on": {"0.email", "1.fax"}, "lit": {"0.email", "1.fax"}}, `{}`},
		"not shown": {url.Values{"kind": {one}, "shown": {"0.email"}, "on": {"0.email", "0.sms", "7.email", "x"},
			"lit": {"0.push", "9.x"}}, `{"clients":{"a/b":{"kinds":{"k 1":{"channels":{"email":true}}}}}}`},
		"unsubscribe": {url.Values{"kind": {one}, "shown": {"0.email"}, "on": {"0.email"}, "lit": {"0.email"}, "off": {"0"}},
			`{"clients":{"a/b":{"kinds":{"k 1":{"subscribed":false}}}}}`},
		"stays unsubscribed": {url.Values{"kind": {left}, "was": {"0"}, "shown": {"0.email"}}, `{}`},
		"subscribe again": {url.Values{"kind": {left}, "was": {"0"}, "shown": {"0.email", "0.sms"}, "on": {"0.sms"}},
			`{"clients":{"a/b":{"kinds":{"left":{"subscribed":true,"channels":{"email":false,"sms":true}}}}}}`},
		"digest": {url.Values{"kind": {one, offers}, "digested.0": {"default"}, "digest.0": {"daily"},
			"digested.1": {"weekly"}, "digest.1": {"weekly"}}, `{"clients":{"a/b":{"kinds":{"k 1":{"digest":"daily"}}}}}`},
		"digest and unsubscribe": {url.Values{"kind": {one}, "digested.0": {"daily"}, "digest.0": {"default"}, "off": {"0"}},
			`{"clients":{"a/b":{"kinds":{"k 1":{"subscribed":false,"digest":"default"}}}}}`},
		"digest of what was left": {url.Values{"kind": {left}, "was": {"0"}, "shown": {"0.email"}, "digested.0": {"default"},
			"digest.0": {"daily"}}, `{"clients":{"a/b":{"kinds":{"left":{"digest":"daily"}}}}}`},
		"quiet hours": {url.Values{"quiet": {"1"}, "from": {"22:00"}, "to": {"07:00"}, "zone": {" UTC "},
			"day": {"mon", "tue"}, "wait": {"sms"}}, `{"quiet_hours":{"from":"22:00","to":"07:00","zone":"UTC",` +
			`"days":["mon","tue"],"channels":["sms"]}}`},
		"other quiet hours": {url.Values{"had": {"mon 21:30 06:00 UTC"}, "quiet": {"1"}, "from": {"21:30"}, "to": {"06:00"},
			"zone": {"UTC"}}, `{"quiet_hours":{"from":"21:30","to":"06:00","zone":"UTC"}}`},
		"quiet hours as before": {url.Values{"had": {"mon 21:30 06:00 UTC"}, "quiet": {"1"}, "from": {"21:30"},
			"to": {"06:00"}, "zone": {"UTC "}, "day": {"mon"}}, `{}`},
		"topics": {url.Values{"topic": {"topic/a/in", "topic/a/out", "topic/b%2Fc/left", "topic/a/other"},
			"inside": {"topic/a/in", "topic/b%2Fc/left"}, "in": {"topic/a/in", "topic/a/out", "topic/a/not-shown"}},
			`{"clients":{"a":{"topics":{"out":{"subscribed":true}}},"b/c":{"topics":{"left":{"subscribed":false}}}}}`},
		"no quiet hours": {url.Values{"had": {"1"}, "from": {"22:00"}}, `{"quiet_hours":null}`},
		"none as before": {url.Values{"had": {""}, "from": {"22:00"}}, `{}`},
	} {
		test.form.Set("form", "3")
		c, err := prefer.Read(test.form)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		got, err := json.Marshal(c)
		if err != nil || string(got) != test.want {
			t.Errorf("%s: %s (%v), want %s", what, got, err, test.want)
		}
	}
	for _, old := range []url.Values{{"none": {"1"}}, {"form": {"2"}, "kind": make([]string, prefer.PerPage+1)}} {
		if _, err := prefer.Read(old); !fault.Is(err, fault.BadRequest) ||
			!strings.Contains(err.Error(), "older than the service") {
			t.Errorf("an old page: %v", err)
		}
	}
	many := url.Values{"kind": make([]string, prefer.PerPage+1)}
	for _, bad := range []url.Values{many, {"kind": {"a/b"}, "off": {"0"}}, {"kind": {"kind/a"}, "off": {"0"}},
		{"kind": {"kind/%zz/b"}, "off": {"0"}}, {"kind": {"kind/a/%zz"}, "off": {"0"}}, {"kind": {"x/a/b"}, "off": {"0"}},
		{"topic": make([]string, prefer.PerPage+1)}, {"topic": {"topic/a"}, "in": {"topic/a"}},
		{"topic": {"kind/a/b"}, "in": {"kind/a/b"}}, {"kind": {"topic/a/b"}, "off": {"0"}}} {
		bad.Set("form", "3")
		if _, err := prefer.Read(bad); !fault.Is(err, fault.BadRequest) {
			t.Errorf("%.100v: %v", bad, err)
		}
	}
}

// many are 250 kinds of two clients, each with a topic, whose names sort as their numbers.
func many() prefer.Preferences {
	p := prefer.Preferences{Clients: map[string]prefer.Client{}}
	for c, client := range []string{"a", "b"} {
		kinds := map[string]prefer.Kind{}
		for i := range 125 {
			n := 125*c + i
			kinds[fmt.Sprintf("k%03d", n)] = prefer.Kind{Description: fmt.Sprintf("Kind %03d", n), Source: "Shop " + client,
				Subscribed: true, Channels: map[string]bool{"email": true}}
		}
		topics := map[string]prefer.Topic{"t" + client: {Description: "News <i>"}}
		p.Clients[client] = prefer.Client{Kinds: kinds, Topics: topics}
	}
	return p
}

var listed = regexp.MustCompile(`name="(?:kind|topic)" value="([^"]+)"`)

// TestPages walks all pages: each kind and topic is on one of them, and what a page says can be saved.
func TestPages(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	address := ""
	for n := 1; ; n++ {
		q, err := url.ParseQuery(strings.TrimPrefix(address, "/at?"))
		if err != nil {
			t.Fatal(err)
		}
		f := prefer.New(many(), prefer.ViewOf(q), "/at")
		page := shown(t, f)
		form := url.Values{"form": {"3"}}
		for _, m := range listed.FindAllStringSubmatch(page, -1) {
			seen[m[1]]++
			what, _, _ := strings.Cut(m[1], "/")
			form.Add(what, m[1])
		}
		if _, err := prefer.Read(form); err != nil || len(form["kind"]) > prefer.PerPage {
			t.Errorf("page %d with %d kinds cannot be saved: %v", n, len(form["kind"]), err)
		}
		for _, want := range []string{fmt.Sprintf("Page %d of 3, 252 of 252 kinds and topics", n),
			fmt.Sprintf(`name="page" value="%d"`, n), `value="0.email"`, "only what this one shows is saved", "Quiet hours"} {
			if !strings.Contains(page, want) {
				t.Errorf("page %d lacks %q", n, want)
			}
		}
		if strings.Contains(page, `rel="prev"`) != (n > 1) {
			t.Errorf("page %d has the wrong links", n)
		}
		if address = f.Next; address == "" {
			break
		}
	}
	if len(seen) != 252 {
		t.Errorf("the pages show %d kinds and topics", len(seen))
	}
	for key, n := range seen {
		if n != 1 {
			t.Errorf("%s is shown %d times", key, n)
		}
	}
}

// TestFind finds kinds, topics and senders by a part of their name or id, in any case.
func TestFind(t *testing.T) {
	t.Parallel()
	for find, want := range map[string]int{"": 252, "kind 00": 10, "K249": 1, "shop B": 126, "news <I>": 2, "b\nta": 0,
		"<script>": 0} {
		f := prefer.New(many(), prefer.View{Find: find, Page: 1}, "")
		page := shown(t, f)
		if f.Total != want || strings.Contains(page, "<script>") ||
			find != "" && !strings.Contains(page, `name="find" value="`+template.HTMLEscapeString(find)) {
			t.Errorf("%q finds %d, want %d", find, f.Total, want)
		}
		if none := strings.Contains(page, "Nothing that you can choose has"); none != (want == 0) {
			t.Errorf("%q: the page says %v that nothing was found", find, none)
		}
	}
	// A page that does not exist is the last one, and the form keeps both.
	f := prefer.New(many(), prefer.ViewOf(url.Values{"find": {" shop "}, "page": {"99"}}), "")
	if f.Page != 3 || f.Previous != "?find=shop&page=2" || f.Next != "" || f.Query() != "?find=shop&page=3" {
		t.Errorf("the last page is %+v", f.View)
	}
	if first := prefer.New(many(), prefer.ViewOf(url.Values{"page": {"-1"}}), ""); first.Page != 1 || first.Query() != "" {
		t.Errorf("the first page is %+v", first.View)
	}
	// A short form has neither a search nor pages.
	if page := shown(t, form(t, stored)); strings.Contains(page, "<nav") || strings.Contains(page, "Save before") {
		t.Error(page)
	}
}

// TestDigests offers what the kind offers, shows what is chosen, and what was sent again.
func TestDigests(t *testing.T) {
	t.Parallel()
	f := form(t, `{"clients":{"shop":{"kinds":{
		"a":{"subscribed":true,"channels":{"email":true},"digest":"daily","digest_choices":["default","daily","weekly"]},
		"b":{"subscribed":true,"channels":{"email":true}}}}}}`)
	page := shown(t, f)
	for text, want := range map[string]bool{
		`name="digested.0" value="daily"`: true, `<select name="digest.0">`: true,
		`<option value="daily" selected>together, at most once a day</option>`: true,
		`<option value="weekly">`: true, `value="hourly"`: false, `digest.1`: false,
	} {
		if strings.Contains(page, text) != want {
			t.Errorf("%s is in it: %t, want %t\n%s", text, !want, want, page)
		}
	}
	f.Refused(url.Values{"kind": {"kind/shop/a"}, "digested.0": {"default"}, "digest.0": {"weekly"}}, "no")
	if page = shown(t, f); !strings.Contains(page, `<option value="weekly" selected>`) ||
		!strings.Contains(page, `name="digested.0" value="daily"`) {
		t.Error(page)
	}
}

// TestTracking asks only where something is counted, and sends what the user changed.
func TestTracking(t *testing.T) {
	t.Parallel()
	const kind = `{"description":"K","subscribed":true,"channels":{"email":true}%s}`
	for name, c := range map[string]struct {
		stored string
		asked  bool
		form   url.Values
		want   string
	}{
		"not counted": {stored: "", form: url.Values{"track": {"0"}}, want: "{}"},
		"refused":     {stored: `,"tracking":false`, asked: true, form: url.Values{"tracks": {"0"}}, want: "{}"},
		"allowed": {stored: `,"tracking":true`, asked: true,
			form: url.Values{"tracks": {"0"}, "tracked": {"0"}, "track": {"0"}}, want: "{}"},
		"allows it now": {stored: `,"tracking":false`, asked: true, form: url.Values{"tracks": {"0"}, "track": {"0"}},
			want: `{"tracking":true}`},
		"takes it back": {stored: `,"tracking":true`, asked: true, form: url.Values{"tracks": {"0"}, "tracked": {"0"}},
			want: `{"tracking":false}`},
		"unsubscribes too": {stored: `,"tracking":true`, asked: true,
			form: url.Values{"tracks": {"0"}, "tracked": {"0"}, "off": {"0"}}, want: `{"subscribed":false,"tracking":false}`},
	} {
		f := form(t, `{"clients":{"a":{"kinds":{"k":`+fmt.Sprintf(kind, c.stored)+`}}}}`)
		page := shown(t, f)
		checked := strings.Contains(c.stored, "true")
		if strings.Contains(page, `name="track" `) != c.asked || c.asked &&
			(strings.Contains(page, `name="track" value="0" checked`) != checked ||
				strings.Contains(page, `name="tracked" value="0"`) != checked) {
			t.Errorf("%s: the page is %s", name, page)
		}
		c.form["form"], c.form["kind"] = []string{"3"}, []string{"kind/a/k"}
		c.form["shown"], c.form["on"], c.form["lit"] = []string{"0.email"}, []string{"0.email"}, []string{"0.email"}
		change, err := prefer.Read(c.form)
		if err != nil {
			t.Fatal(err)
		}
		var got prefer.KindChange
		if of := change.Clients["a"]; of != nil {
			got = of.Kinds["k"]
		}
		if text, err := json.Marshal(got); err != nil || string(text) != c.want {
			t.Errorf("%s: the change is %s, %v, want %s", name, text, err, c.want)
		}
		f.Refused(c.form, "no")
		if on := c.form.Has("track") && c.asked; strings.Contains(shown(t, f), `name="track" value="0" checked`) != on {
			t.Errorf("%s: the page does not show what was sent", name)
		}
	}
}
