package provider

import (
	"encoding/json"
	"maps"
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

// hostile are values that try to end the place where they are.
var hostile = []string{
	`"`, `","admin":true,"x":"`, `\`, `\"`, `\u0022`, "\"}\n{", "\r\nX-Injected: 1", "\r\n\r\nGET / HTTP/1.1\r\n", "\x00", "\x1b[0m",
	"&to=%2B1", "a=b&c=d", "%26to%3D1", "?x=y", "#x", "/../../admin", "..", ".", "%2e%2e", "..%2f..", `..\..`,
	";jsessionid=1",
	"@evil.example/", "//evil.example", "\\\\evil.example", "https://evil.example/", "{{secret \"key\"}}", "{{text}}",
	"$(id)",
	"`id`",
	"</script><script>", "\u2028\u2029", "\ufeff", "\xff\xfe", "\U0001F600", strings.Repeat("é", 500), "+", " ", "",
}

// TestHostileValues puts values into each place: none gets out of it.
func TestHostileValues(t *testing.T) {
	t.Parallel()
	type seen struct {
		path, host string
		query      url.Values
		header     http.Header
		form       url.Values
		json       map[string]any
	}
	var got *seen
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = &seen{path: r.URL.EscapedPath(), host: r.Host, query: r.URL.Query(), header: r.Header}
		if r.Header.Get("Content-Type") == "application/json" {
			if err := json.NewDecoder(r.Body).Decode(&got.json); err != nil {
				t.Errorf("the body is not JSON: %v", err)
			}
		} else if err := r.ParseForm(); err == nil {
			got.form = r.PostForm
		}
	}))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	definition := notify.ProviderDefinition{URL: server.URL + "/a/{{user}}/b?u={{user}}&end=1",
		Headers: map[string]string{"X-User": "<{{user}}>", "Authorization": `Basic {{basic "key" "key"}}`}}
	inForm, inJSON := definition, definition
	inForm.Form = map[string]string{"u": "<{{user}}>", "end": "1"}
	inJSON.JSON = json.RawMessage(`{"u":"<{{user}}>","list":["{{user}}",{"x":"{{user}}"}],"end":1.50,"{":null}`)
	client := outbound.New(outbound.Options{Private: true})
	for _, value := range hostile {
		for name, d := range map[string]notify.ProviderDefinition{"form": inForm, "json": inJSON} {
			c, err := Compile(notify.Provider{Name: "p", ProviderDefinition: d, Secrets: map[string]string{"key": "sécret/?&"}})
			if err != nil {
				t.Fatal(err)
			}
			r, err := c.Request(&notify.Outgoing{UserID: value, To: "+4915112345678", Body: &notify.Body{Text: "t"}}, "",
				time.Now())
			if err != nil {
				if strings.Trim(value, ".") == "" && value != "" { // a path's segment of dots
					continue
				}
				t.Errorf("%q: %v", value, err)
				continue
			}
			got = nil
			if a, _, err := client.Do(t.Context(), r); err != nil || !a.OK() || got == nil {
				t.Errorf("%q in %s: %v, %v", value, name, a, err)
				continue
			}
			plain := strings.ToValidUTF8(strings.ReplaceAll(value, "\x00", ""), "\ufffd")
			path, err := url.PathUnescape(got.path)
			if err != nil || path != "/a/"+plain+"/b" || strings.Count(got.path, "/") != 3 || got.host != host {
				t.Errorf("%q: the path is %q on %s", value, got.path, got.host)
			}
			if len(got.query) != 2 || got.query.Get("u") != plain || got.query.Get("end") != "1" {
				t.Errorf("%q: the query is %v", value, got.query)
			}
			if h := got.header.Get("X-User"); len(got.header["X-User"]) != 1 || got.header.Get("X-Injected") != "" ||
				h != "<"+inHeader(plain)+">" {
				t.Errorf("%q: the headers are %v", value, got.header)
			}
			names := slices.Sorted(maps.Keys(got.header))
			if want := []string{"Accept", "Accept-Encoding", "Authorization", "Content-Length", "Content-Type", "User-Agent",
				"X-User"}; !slices.Equal(names, want) {
				t.Errorf("%q: the headers are %v", value, names)
			}
			switch name {
			case "form":
				if len(got.form) != 2 || got.form.Get("u") != "<"+plain+">" || got.form.Get("end") != "1" {
					t.Errorf("%q: the form is %v", value, got.form)
				}
			default:
				list, _ := got.json["list"].([]any)
				if len(got.json) != 4 || got.json["u"] != "<"+plain+">" || got.json["end"] != 1.5 || len(list) != 2 ||
					list[0] != plain || list[1].(map[string]any)["x"] != plain {
					t.Errorf("%q: the body is %v", value, got.json)
				}
			}
		}
	}
}

// TestWrong has definitions that are refused.
func TestWrong(t *testing.T) {
	t.Parallel()
	good := func() notify.Provider {
		return notify.Provider{Name: "p", Secrets: map[string]string{"key": "secret"}, ProviderDefinition: notify.
			ProviderDefinition{URL: "https://example.com/{{id}}", Form: map[string]string{"a": `{{secret "key"}}`}}}
	}
	if _, err := Compile(good()); err != nil {
		t.Fatal(err)
	}
	deep := strings.Repeat(`[`, 30) + strings.Repeat(`]`, 30)
	for want, change := range map[string]func(p *notify.Provider){
		"the name":               func(p *notify.Provider) { p.Name = "A b" },
		`"method"`:               func(p *notify.Provider) { p.Method = "TRACE" },
		"https://: messages":     func(p *notify.Provider) { p.URL = "http://example.com/" },
		"https:// and a host":    func(p *notify.Provider) { p.URL = "file:///etc/passwd" },
		"and a host":             func(p *notify.Provider) { p.URL = "https://" },
		"user name or password":  func(p *notify.Provider) { p.URL = "https://u:p@example.com/" },
		"must not contain #":     func(p *notify.Provider) { p.URL = "https://example.com/#x" },
		"placeholder before":     func(p *notify.Provider) { p.URL = "https://{{user}}.example.com/" },
		"before the path":        func(p *notify.Provider) { p.URL = "https://example.com:{{user}}/" },
		"written as %20":         func(p *notify.Provider) { p.URL = `https://example.com/a b` },
		"2000":                   func(p *notify.Provider) { p.URL += strings.Repeat("x", 2000) },
		"has no }}":              func(p *notify.Provider) { p.URL += "{{id" },
		"not a placeholder":      func(p *notify.Provider) { p.URL += "{{env}}" },
		"not understood":         func(p *notify.Provider) { p.URL += "{{id | js}}" },
		"takes no argument":      func(p *notify.Provider) { p.URL += `{{id "x"}}` },
		"is empty":               func(p *notify.Provider) { p.URL += `{{}}` },
		"takes the name of":      func(p *notify.Provider) { p.URL += `{{secret}}` },
		"names of two secrets":   func(p *notify.Provider) { p.URL += `{{basic "key"}}` },
		"in quotes":              func(p *notify.Provider) { p.URL += `{{secret "key}}` },
		"the name of a secret":   func(p *notify.Provider) { p.URL += `{{secret "A B"}}` },
		`the secret "other"`:     func(p *notify.Provider) { p.URL += `{{secret "other"}}` },
		"at most 100":            func(p *notify.Provider) { p.Form["x"] = strings.Repeat("{{id}}", 101) },
		"4 to 4096":              func(p *notify.Provider) { p.Secrets["key"] = "abc" },
		"without line breaks":    func(p *notify.Provider) { p.Secrets["key"] = "abcd\n" },
		"name of a header":       func(p *notify.Provider) { p.Headers = map[string]string{"A\r\nB": "x"} },
		"Host cannot be set":     func(p *notify.Provider) { p.Headers = map[string]string{"host": "x"} },
		"X-Forwarded-For cannot": func(p *notify.Provider) { p.Headers = map[string]string{"x-forwarded-for": "x"} },
		"more than once":         func(p *notify.Provider) { p.Headers = map[string]string{"a": "x", "A": "y"} },
		"either":                 func(p *notify.Provider) { p.JSON = json.RawMessage(`{}`) },
		"there is no body":       func(p *notify.Provider) { p.Method = "GET" },
		"valid JSON":             func(p *notify.Provider) { p.Form, p.JSON = nil, json.RawMessage(`{`) },
		"nested":                 func(p *notify.Provider) { p.Form, p.JSON = nil, json.RawMessage(deep) },
		"which only values":      func(p *notify.Provider) { p.Form, p.JSON = nil, json.RawMessage(`{"{{id}}":1}`) },
		"the name \"{{id":        func(p *notify.Provider) { p.Form["{{id}}"] = "" },
		"neither":                func(p *notify.Provider) { p.Temporary = []notify.AnswerRule{{}} },
		`"path"`: func(p *notify.Provider) {
			p.Success = &notify.AnswerRule{JSON: &notify.JSONRule{Path: "a..b", Equals: json.RawMessage(`1`)}}
		},
		`"equals"`: func(p *notify.Provider) {
			p.Success = &notify.AnswerRule{JSON: &notify.JSONRule{Path: "a", Equals: json.RawMessage(`{}`)}}
		},
		`"rate_per_second"`: func(p *notify.Provider) { p.Rate = -1 },
		`"weight"`:          func(p *notify.Provider) { p.Weight = 1001 },
		`"max_segments"`:    func(p *notify.Provider) { p.MaxSegments = 11 },
		"32768":             func(p *notify.Provider) { p.Form["x"] = strings.Repeat("x", 40_000) },
	} {
		p := good()
		change(&p)
		if _, err := Compile(p); !fault.Is(err, fault.Unprocessable) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", want, err)
		}
	}
	p := good()
	p.URL += `{{"{{"}}{{basic "b" "a"}}`
	if got := SecretsOf(p); !slices.Equal(got, []string{"a", "b", "key"}) {
		t.Errorf("the secrets are %v", got)
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	rule := func(text string) (r notify.AnswerRule) {
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	accepted := rule(`{"json":{"path":"messages.0.status","equals":["0",0]}}`)
	c, err := Compile(notify.Provider{Name: "p", ProviderDefinition: notify.ProviderDefinition{URL: "https://example.com",
		Success: &accepted, Temporary: []notify.AnswerRule{rule(`{"status":["2xx"],"json":{"path":"messages.0.status","equals":"1"}}`),
			rule(`{"status":[418]}`)}, Permanent: []notify.AnswerRule{rule(`{"status":["500-502"]}`)}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		status int
		body   string
		want   notify.Verdict
	}{
		{200, `{"messages":[{"status":"0"}]}`, notify.Accepted},
		{202, `{"messages":[{"status":0.0}]}`, notify.Accepted},
		{200, `{"messages":[{"status":"1"}]}`, notify.Temporary},
		{200, `{"messages":[{"status":"2"}]}`, notify.Permanent},
		{200, `{"messages":[{"status":null}]}`, notify.Permanent},
		{200, `{"messages":[{"status":false}]}`, notify.Permanent},
		{200, `{"messages":[]}`, notify.Permanent},
		{200, `{"messages":{"0":{"status":"0"}}}`, notify.Accepted},
		{200, `{"messages":[{"status":["0"]}]}`, notify.Permanent},
		{200, `not JSON`, notify.Permanent},
		{200, ``, notify.Permanent},
		{300, `{"messages":[{"status":"0"}]}`, notify.Temporary},
		{418, ``, notify.Temporary},
		{500, ``, notify.Permanent},
		{503, ``, notify.Temporary},
		{403, ``, notify.Temporary},
		{404, ``, notify.Temporary},
		{400, ``, notify.Permanent},
	} {
		a := &answer{Answer: outbound.Answer{Status: tc.status}, body: []byte(tc.body)}
		if got := c.judge(a); got.Verdict != tc.want || got.Verdict != notify.Accepted && got.Reason == "" {
			t.Errorf("%d %s: %+v, want %d", tc.status, tc.body, got, tc.want)
		}
	}
}

func TestStatusRange(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{`200`: `200`, `"200"`: `200`, `"2xx"`: `"2xx"`, `"400-403"`: `"400-403"`,
		`"500-599"`: `"5xx"`, `"404-404"`: `404`, `99`: "", `600`: "", `"403-400"`: "", `"x"`: "", `null`: "", `"2xx-300"`: ""} {
		var r notify.StatusRange
		err := json.Unmarshal([]byte(`[`+text+`]`), &[]*notify.StatusRange{&r})
		if err != nil || r.Valid() != (want != "") {
			t.Errorf("%s: %+v, %v", text, r, err)
		}
		if got, _ := json.Marshal(r); want != "" && string(got) != want {
			t.Errorf("%s became %s, want %s", text, got, want)
		}
	}
}

func TestSegments(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		text string
		n    int
		want string
	}{
		{"", 1, ""},
		{strings.Repeat("a", 160), 1, strings.Repeat("a", 160)},
		{strings.Repeat("a", 161), 1, strings.Repeat("a", 157) + "..."},
		{strings.Repeat("a", 306), 2, strings.Repeat("a", 306)},
		{strings.Repeat("a", 307), 2, strings.Repeat("a", 303) + "..."},
		{strings.Repeat("€", 80), 1, strings.Repeat("€", 80)},
		{strings.Repeat("€", 81), 1, strings.Repeat("€", 78) + "..."},
		{strings.Repeat("ж", 70), 1, strings.Repeat("ж", 70)},
		{strings.Repeat("ж", 71), 1, strings.Repeat("ж", 69) + "…"},
		{strings.Repeat("ж", 135), 2, strings.Repeat("ж", 133) + "…"},
		{strings.Repeat("🎉", 35), 1, strings.Repeat("🎉", 35)},
		{strings.Repeat("🎉", 36), 1, strings.Repeat("🎉", 34) + "…"},
		{strings.Repeat("a ", 100), 1, strings.Repeat("a ", 78) + "a..."},
	} {
		got := InSegments(tc.text, tc.n)
		if got != tc.want {
			t.Errorf("%.20q in %d: got %d characters: %q", tc.text, tc.n, len([]rune(got)), got)
		}
	}
}

func FuzzText(f *testing.F) {
	for _, s := range append(hostile, `{{secret "a"}}`, `{{basic "a" "b"}}`, `{{ "{{" }}`, "{{text}}x{{id}}") {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		parsed, err := parseText(s, fields)
		if err != nil {
			return
		}
		if n := parsed.placeholders(); n > len(s)/6 {
			t.Errorf("%q has %d placeholders", s, n)
		}
		parsed.render(values{}, asIs)
	})
}
