package provider

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/notify"
	"ingot/internal/notify/outbound"
)

// TestHostileNotes puts values into each place of a call for a device: none gets out of it.
func TestHostileNotes(t *testing.T) {
	t.Parallel()
	type seen struct {
		path, user, injected string
		query                url.Values
		body                 map[string]any
	}
	var got *seen
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = &seen{path: r.URL.EscapedPath(), query: r.URL.Query(), user: r.Header.Get("X-Token"),
			injected: r.Header.Get("X-Injected")}
		raw, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(raw, &got.body); err != nil {
			t.Errorf("the body is not JSON: %v", err)
		}
	}))
	defer server.Close()
	c, err := Compile(notify.Provider{Name: "p", Channel: notify.Push, ProviderDefinition: notify.ProviderDefinition{
		URL:     server.URL + "/devices/{{token}}/send?d={{data \"order.id\"}}&end=1",
		Headers: map[string]string{"X-Token": "<{{token}}>"}, MaxText: maxMaxText,
		JSON: json.RawMessage(`{"to":"{{token}}!","title":"{{title}}!","data":"{{data}}","id":"{{data \"order.id\"}}!","end":1}`)}})
	if err != nil {
		t.Fatal(err)
	}
	client := outbound.New(outbound.Options{Private: true})
	for _, value := range append(slices.Clone(hostile), strings.Repeat("x", 2000)) {
		r, err := c.PushRequest(&notify.Outgoing{Data: map[string]any{"order": map[string]any{"id": value}}},
			&Note{Token: value, Title: value, Text: "t"}, "", time.Now())
		if err != nil {
			if strings.Trim(value, ".") != "" || value == "" { // a path's segment of dots
				t.Errorf("%q: %v", value, err)
			}
			continue
		}
		got = nil
		if a, _, err := client.Do(t.Context(), r); err != nil || !a.OK() || got == nil {
			t.Errorf("%q: %v, %v", value, a, err)
			continue
		}
		plain := clean(value)
		path, err := url.PathUnescape(got.path)
		if err != nil || path != "/devices/"+plain+"/send" || strings.Count(got.path, "/") != 3 {
			t.Errorf("%q: the path is %q", value, got.path)
		}
		if len(got.query) != 2 || got.query.Get("d") != plain || got.query.Get("end") != "1" {
			t.Errorf("%q: the query is %v", value, got.query)
		}
		if got.injected != "" || got.user != "<"+inHeader(plain)+">" {
			t.Errorf("%q: the header is %q", value, got.user)
		}
		var data map[string]map[string]string
		text, _ := got.body["data"].(string)
		if err := json.Unmarshal([]byte(text), &data); err != nil || plain == value && data["order"]["id"] != plain {
			t.Errorf("%q: the data is %q", value, text)
		}
		if got.body["to"] != plain+"!" || got.body["title"] != plain+"!" || got.body["id"] != plain+"!" ||
			got.body["end"] != 1.0 || len(got.body) != 5 {
			t.Errorf("%q: the body is %v", value, got.body)
		}
	}
}

// TestAbsent leaves out what is only a placeholder without a value.
func TestAbsent(t *testing.T) {
	t.Parallel()
	d := notify.ProviderDefinition{URL: "https://example.com/",
		Headers: map[string]string{"X-Icon": "{{icon}}", "X-To": "{{token}}"}}
	inJSON, inForm := d, d
	inJSON.JSON = json.RawMessage(`{"to":"{{token}}","url":"{{url}}","list":["{{url}}"],"more":{"url":"{{url}}","n":"{{data \"n\"}}",
		"b":"{{data \"b\"}}","o":"{{data \"o\"}}","none":"{{data \"o.x.y\"}}","first":"{{data \"l.0\"}}","null":"{{data \"null\"}}"},"text":"{{text}}: {{url}}"}`)
	inForm.Form = map[string]string{"to": "{{token}}", "url": "{{url}}", "text": "{{text}}"}
	data := map[string]any{"n": json.Number("1.50"), "b": false, "o": map[string]any{"k": "v"}, "l": []any{"first"},
		"null": nil}
	for want, d := range map[string]notify.ProviderDefinition{
		`{"list":[""],"more":{"b":"false","first":"first","n":"1.50","o":"{\"k\":\"v\"}"},"text":"Hi: ","to":"tok"}`: inJSON,
		"text=Hi&to=tok": inForm,
	} {
		c, err := Compile(notify.Provider{Name: "p", Channel: notify.Push, ProviderDefinition: d})
		if err != nil {
			t.Fatal(err)
		}
		r, err := c.PushRequest(&notify.Outgoing{Data: data}, &Note{Token: "tok", Text: "Hi"}, "", time.Now())
		if err != nil || string(r.Body) != want || r.Header["X-Icon"] != nil || r.Header.Get("X-To") != "tok" {
			t.Errorf("%s %v, %v, want %s", r.Body, r.Header, err, want)
		}
	}
}

// TestMaxText cuts off what is longer.
func TestMaxText(t *testing.T) {
	t.Parallel()
	d := notify.ProviderDefinition{URL: "https://example.com/",
		Form: map[string]string{"to": "{{token}}", "text": "{{text}}"}}
	for limit, want := range map[int]int{0: defaultMaxText, 50: 50} {
		d.MaxText = limit
		c, err := Compile(notify.Provider{Name: "p", Channel: notify.Push, ProviderDefinition: d})
		if err != nil {
			t.Fatal(err)
		}
		r, err := c.PushRequest(&notify.Outgoing{}, &Note{Token: "tok", Text: strings.Repeat("a", 1<<20)}, "", time.Now())
		form, _ := url.ParseQuery(string(r.Body))
		if err != nil || form.Get("text") != strings.Repeat("a", want)+"…" {
			t.Errorf("%d: %d bytes, %v, want %d", limit, len(form.Get("text")), err, want)
		}
	}
}

// TestWrongForDevices has definitions that are refused, and what is said.
func TestWrongForDevices(t *testing.T) {
	t.Parallel()
	type definition = notify.ProviderDefinition
	form := func(v string) map[string]string { return map[string]string{"to": "{{token}}", "x": v} }
	only := func(v string) map[string]string { return map[string]string{"x": v} }
	rules := func(n int) []notify.AnswerRule { return make([]notify.AnswerRule, n) }
	for name, c := range map[string]struct {
		channel notify.ChannelID
		d       definition
		want    string
	}{
		"none":      {notify.Push, definition{Form: form("{{text}}")}, ""},
		"no token":  {notify.Push, definition{Form: only("{{text}}")}, "{{token}} is not used"},
		"in sms":    {notify.SMS, definition{Form: form("")}, "{{token}} is not a placeholder"},
		"phone":     {notify.Push, definition{Form: form("{{phone}}")}, "{{phone}} is not a placeholder"},
		"subject":   {notify.Push, definition{Form: form("{{subject}}")}, "{{subject}} is not a placeholder"},
		"title":     {notify.SMS, definition{Form: only("{{title}}")}, "{{title}} is not a placeholder"},
		"path":      {notify.Push, definition{Form: form(`{{data "a..b"}}`)}, "must have the path of a value"},
		"no path":   {notify.Push, definition{Form: form(`{{data ""}}`)}, "must have the path of a value"},
		"two paths": {notify.Push, definition{Form: form(`{{data "a" "b"}}`)}, "takes no argument"},
		"argument":  {notify.Push, definition{Form: form(`{{token "a"}}`)}, "takes no argument"},
		"segments":  {notify.Push, definition{Form: form(""), MaxSegments: 1}, `"max_segments" is for text messages`},
		"text":      {notify.Push, definition{Form: form(""), MaxText: 49}, `"max_text" must be from 50`},
		"huge":      {notify.Push, definition{Form: form(""), MaxText: 20_001}, `"max_text" must be from 50`},
		"service":   {notify.Push, definition{Form: form(""), Service: "A b"}, `"service" has at most 63`},
		"of sms":    {notify.SMS, definition{Service: "a"}, "are for providers of the channel push"},
		"gone":      {notify.SMS, definition{Gone: rules(1)}, "are for providers of the channel push"},
		"empty":     {notify.Push, definition{Form: form(""), Gone: rules(1)}, `"gone"[0] has neither`},
		"many":      {notify.Push, definition{Form: form(""), Gone: rules(21)}, `may have 20 rules each`},
	} {
		c.d.URL = "https://example.com/"
		_, err := Compile(notify.Provider{Name: "p", Channel: c.channel, ProviderDefinition: c.d})
		if (err == nil) != (c.want == "") || err != nil && (!fault.Is(err, fault.Unprocessable) ||
			!strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	p := notify.Provider{Channel: notify.Push, ProviderDefinition: definition{URL: "https://x/",
		Form: form(`{{data "a.b"}}{{secret "key"}}`)}}
	if got := SecretsOf(p); !slices.Equal(got, []string{"key"}) {
		t.Errorf("the secrets are %v", got)
	}
}
