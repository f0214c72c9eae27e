package apitest_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/html"

	"ingot/internal/base/web/openapitest"
)

// hostileAPI walks every operation that the descriptions have. What is walked comes from them: a new operation with a
// body fails until bodies has a row for it, and a new field needs nothing.
type hostileAPI struct {
	*site
	doc      *openapitest.Document
	version  int
	ids      map[string]string // what parameters of paths stand for
	inbox    string            // a token
	look     string            // a template of version 2
	seen     map[string]bool   // names of fields
	asked    int
	accepted map[string]int // by operation
}

// requestBodies has a body that is accepted for each operation. Fields that it lacks are added one at a time.
var requestBodies = map[string]string{
	"1 PUT /notifications":                                  `{"source_name":"Shop","notifications":{"news":{"description":"News","critical":false}}}`,
	"1 PUT /registration":                                   `{"source_description":"Shop","kinds":[{"id":"news","description":"News","critical":false}]}`,
	"1 PUT /clients/{client}/template":                      `{"template":null}`,
	"1 POST /templates":                                     `{"name":"n","subject":"{{.Subject}}","text":"{{.Text}}","html":"<p>{{.HTML}}</p>","metadata":{}}`,
	"1 PUT /templates/{template}":                           `{"name":"n","subject":"{{.Subject}}","text":"{{.Text}}","html":"<p>{{.HTML}}</p>","metadata":{}}`,
	"1 PUT /default_template":                               `{"name":"n","subject":"{{.Subject}}","text":"{{.Text}}","html":"{{.HTML}}"}`,
	"1 POST /templates/{template}/test":                     `{"subject":"s","text":"t","html":"<p>h</p>"}`,
	"1 POST /emails":                                        `{"to":"bob@example.com","subject":"s","text":"t","html":"<p>h</p>"}`,
	"1 POST /users/{id}":                                    `{"kind_id":"news","subject":"s","text":"t"}`,
	"1 POST /spaces/{id}":                                   `{"kind_id":"news","subject":"s","text":"t"}`,
	"1 POST /organizations/{id}":                            `{"kind_id":"news","subject":"s","text":"t"}`,
	"1 POST /uaa_scopes/{id}":                               `{"kind_id":"news","subject":"s","text":"t"}`,
	"1 POST /everyone":                                      `{"kind_id":"news","subject":"s","text":"t"}`,
	"1 PATCH /user_preferences":                             `{"global_unsubscribe":false,"clients":{"shop":{"news":{"email":true}}}}`,
	"1 PATCH /user_preferences/{user}":                      `{"global_unsubscribe":false,"clients":{"shop":{"news":{"email":true}}}}`,
	"1 PUT /clients/{client}/notifications/{kind}":          `{"description":"News","critical":false,"template":""}`,
	"1 PUT /clients/{client}/notifications/{kind}/template": `{"template":null}`,
	"1 POST /clients/{client}/notifications/{kind}/test":    `{"subject":"s","text":"t","html":"<p>h</p>"}`,

	"1 POST /sends": `{"kind_id":"news","subject":"s","text":"t","html":"<p>h</p>","data":{"a":1},"locale":"de",
		"recipients":[{"user":"u-1","data":{"b":2},"locale":"fr"}],"ttl":"1h","thread":"order-1"}`,
	"1 POST /templates/preview": `{"template":{"subject":"s","text":"{{.Text}}","html":"<p>{{.HTML}}</p>"},
		"message":{"subject":"s","text":"t","html":"h"},"data":{"a":1},"locale":"de"}`,
	"1 POST /templates/check":                       `{"subject":"s","text":"t","html":"h"}`,
	"1 PUT /templates/{template}/variants/{locale}": `{"subject":"s","text":"t","html":"h"}`,
	"1 POST /templates/{template}/rollback":         `{"version":NEWEST}`,
	"1 PUT /partials/{partial}":                     `{"text":"t","html":"<p>h</p>","variants":{"de":{"text":"t","html":"h"}}}`,
	"1 POST /webhooks":                              `{"url":"https://example.com/hook","events":["delivered"],"secret":"0123456789abcdef"}`,
	"1 PUT /kinds/{kind}/schema":                    `{"type":"object","properties":{"a":{"type":"number"}}}`,
	"1 PUT /kinds/{kind}/workflow":                  `{"steps":[{"channel":"email","after":"1h","if":{"data":"a","equals":"b"}}]}`,
	"1 PUT /kinds/{kind}/throttle":                  `{"limit":10,"window":"1h","over":"digest","channels":["email"]}`,
	"1 PUT /kinds/{kind}/retention":                 `{"retention":"24h"}`,
	"1 PUT /kinds/{kind}/digest":                    `{"window":"1h","max":10,"key":"order","channels":["email"]}`,
	"1 PUT /kinds/{kind}/tracking":                  `{"opens":true,"clicks":true}`,
	"1 PUT /kinds/{kind}/channels":                  `{"channels":["email","inbox"]}`,
	"1 PUT /destinations/{channel}":                 `{"url":"https://example.com/chat","format":"slack"}`,
	"1 PATCH /preferences":                          preferenceBody,
	"1 PATCH /preferences/{user}":                   preferenceBody,
	"1 POST /erasures":                              `{"user_id":"u-9"}`,
	"1 PUT /topics/{topic}":                         `{"description":"d"}`,
	"1 POST /topics/{topic}/subscribers":            `{"subscribers":[{"user":"u-1"}]}`,
	"1 POST /topics/{topic}/sends":                  `{"kind_id":"news","subject":"s","text":"t","html":"<p>h</p>","data":{"a":1}}`,
	"1 PUT /recurring_sends/{name}":                 `{"cron":"@daily","zone":"Europe/Berlin","send":{"kind_id":"news","text":"t","recipients":[{"user":"u-1"}]}}`,
	"1 POST /inbox/tokens":                          `{"user_id":"u-1","expires_in":60}`,
	"1 POST /push_subscriptions":                    `{"client_id":"shop","service":"devices","token":"device","label":"Laptop"}`,
	"1 POST /inbox/push_subscriptions":              `{"service":"devices","token":"device","label":"Laptop"}`,
	"1 PUT /inbox/origins":                          `{"origins":["https://example.com"]}`,
	"1 PATCH /inbox/notifications/{notification}":   `{"read":true}`,
	"1 PUT /campaign_types/{type}/channels":         `{"channels":["email"]}`,
	"2 POST /senders":                               `{"name":"NEW"}`,
	"2 PUT /senders/{sender}":                       `{"name":"NEW"}`,
	"2 POST /senders/{sender}/campaign_types":       `{"name":"NEW","description":"d","critical":false,"template_id":""}`,
	"2 PUT /campaign_types/{type}":                  `{"name":"NEW","description":"d","critical":false,"template_id":""}`,
	"2 POST /templates":                             `{"name":"NEW","subject":"s","text":"t","html":"h","metadata":{}}`,
	"2 PUT /templates/{template}":                   `{"name":"NEW","subject":"s","text":"t","html":"h","metadata":{}}`,
	"2 PUT /templates/default":                      `{"name":"NEW","subject":"{{.Subject}}","text":"{{.Text}}","html":"{{.HTML}}"}`,
	"2 POST /senders/{sender}/campaigns": `{"send_to":{"users":["u-1"]},"campaign_type_id":"TYPE","text":"t","html":"h",
		"subject":"s","reply_to":"a@example.com"}`,
	"1 PUT /providers/{provider}": `{"channel":"sms","url":"https://example.com/","method":"POST","headers":{"X-A":"{{phone}}","X-B":"{{secret \"key\"}}"},
		"json":{"text":"{{text}}"},"success":{"status":["2xx"],"json":{"path":"a.b","equals":1}},
		"permanent":[{"status":[400]}],"weight":1,"rate_per_second":5,"secrets":{"key":"secret"}}`,
}

const preferenceBody = `{"global_unsubscribe":false,"quiet_hours":{"from":"22:00","to":"07:00","zone":"Europe/Berlin",
	"days":["mon"],"channels":["email"]},"clients":{"shop":{"kinds":{"news":{"channels":{"email":true}}}}}}`

// otherBodies are types of bodies that walkFiles and walkLines send, and a form without fields.
var otherBodies = []string{"application/octet-stream", "application/x-ndjson", "application/x-www-form-urlencoded"}

// field says where something is in a body.
type field []string

func (f field) String() string { return strings.Join(f, ".") }

// fields returns what a schema describes: an index stands for any element of a list, and "*" for any name.
func (h *hostileAPI) fields(v any, at field, seen int) (all []field) {
	s := h.doc.Resolve(v)
	if s == nil || seen > 7 {
		return nil
	}
	for _, key := range []string{"oneOf", "anyOf", "allOf"} {
		list, _ := s[key].([]any)
		for _, one := range list {
			all = append(all, h.fields(one, at, seen+1)...)
		}
	}
	properties, _ := s["properties"].(openapitest.Object)
	inner := func(key string, v any) {
		below := append(slices.Clone(at), key)
		all = append(append(all, below), h.fields(v, below, seen+1)...)
	}
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		if !slices.Contains(at, key) { // of a condition in a condition
			inner(key, properties[key])
		}
	}
	if s["items"] != nil {
		inner("0", s["items"])
	}
	if m, ok := s["additionalProperties"].(openapitest.Object); ok {
		inner("*", m)
	}
	return all
}

// with returns a body with a field set to a raw value, and what is missing around it.
func with(body any, at field, raw string) any {
	if len(at) == 0 {
		return json.RawMessage(raw)
	}
	if at[0] == "0" {
		list, _ := body.([]any)
		if len(list) == 0 {
			return []any{with(nil, at[1:], raw)}
		}
		return append([]any{with(list[0], at[1:], raw)}, list[1:]...)
	}
	object, _ := body.(map[string]any)
	out := maps.Clone(object)
	if out == nil {
		out = map[string]any{}
	}
	name := at[0]
	if name == "*" {
		if name = "de"; len(out) > 0 {
			name = slices.Min(slices.Collect(maps.Keys(out)))
		}
	}
	out[name] = with(out[name], at[1:], raw)
	return out
}

// bearer returns the token that an operation takes.
func (h *hostileAPI) bearer(method, path string) string {
	switch {
	case strings.HasPrefix(path, "/unsubscribe/"):
		return ""
	case strings.HasPrefix(path, "/inbox/notifications"), path == "/inbox/stream", path == "/inbox/read_all",
		strings.HasPrefix(path, "/inbox/push_subscriptions"), path == "/inbox":
		return h.inbox
	case strings.HasSuffix(path, "/test"), path == "/user_preferences", path == "/preferences",
		strings.HasPrefix(path, "/push_subscriptions"):
		return h.User(theUser, "notification_preferences.read", "notification_preferences.write",
			"notification_templates.write", "notification_templates.read", "notifications.admin")
	}
	return h.Client("shop")
}

// path fills the parameters of a path, one of them with a value of its own.
func (h *hostileAPI) path(template, own, value string) string {
	parts := strings.Split(template, "/")
	for i, part := range parts {
		name, is := strings.CutPrefix(part, "{")
		if name = strings.TrimSuffix(name, "}"); !is {
			continue
		}
		if name == own {
			parts[i] = url.PathEscape(value)
			continue
		}
		known, ok := h.ids[strings.TrimPrefix(parts[i-1], "/")+" "+name]
		if !ok {
			if known, ok = h.ids[name]; !ok {
				h.t.Errorf("%s: no value for {%s}", template, name)
			}
		}
		parts[i] = url.PathEscape(known)
	}
	return strings.Join(parts, "/")
}

// call makes a request and checks what every answer has to be.
func (h *hostileAPI) call(what, bearer, method, path string, body io.Reader, headers ...string) reply {
	h.asked++
	a, err := h.ask(h.version, bearer, method, path, body, headers...)
	if err != nil {
		h.t.Errorf("%s: %v", what, err)
		return a
	}
	if a.status >= 500 && a.status != http.StatusNotImplemented {
		h.t.Errorf("%s: %d %.500s", what, a.status, a.body)
	}
	if why := h.wrong(method, path, a); why != "" {
		h.t.Errorf("%s: %s", what, why)
	}
	return a
}

// wrong returns what is wrong with an answer, whatever was asked.
func (h *hostileAPI) wrong(method, path string, a reply) string {
	for _, name := range []string{"Bcc", "X-Injected", "Set-Cookie", "X"} {
		if a.header.Get(name) != "" {
			return fmt.Sprintf("the answer has the header %s: %q", name, a.header.Get(name))
		}
	}
	kind := a.header.Get("Content-Type")
	switch {
	case len(a.body) > 0 && a.header.Get("X-Content-Type-Options") != "nosniff" &&
		!strings.HasPrefix(kind, "application/"):
		return fmt.Sprintf("browsers may guess the type of the answer, %q", kind)
	case strings.HasPrefix(kind, "text/html"):
		if policy := a.header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") ||
			strings.Contains(policy, "unsafe") {
			return fmt.Sprintf("the policy of the page is %q", policy)
		}
		// A script of the page's own runs by its hash in the policy.
		return activeHTML(ownScript.ReplaceAllString(string(a.body), ""))
	case strings.HasPrefix(kind, "application/json"):
		if !json.Valid(a.body) {
			return fmt.Sprintf("the answer is not JSON: %.300s", a.body)
		}
	}
	at, err := url.Parse(path)
	if err != nil {
		return err.Error()
	}
	if o := h.doc.Find(method, at.EscapedPath()); o != nil {
		body := a.body
		if !strings.HasPrefix(kind, "application/json") {
			body = nil
		}
		if err := o.Check(a.status, a.header, body); err != nil {
			return fmt.Sprintf("the answer is not as described: %v\n%d %.500s", err, a.status, a.body)
		}
	}
	return ""
}

var ownScript = regexp.MustCompile(`(?s)<script type="module">.*?</script>`)

var addressAttributes = []string{"href", "src", "action", "formaction", "background", "poster", "cite", "data",
	"longdesc"}

// activeHTML returns what in a page could do something, "" if nothing.
func activeHTML(text string) string {
	doc, err := html.Parse(strings.NewReader(text))
	if err != nil {
		return err.Error()
	}
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		switch n.Data {
		case "script", "iframe", "object", "embed", "base", "frame", "svg", "math", "video", "audio", "textarea":
			return "it has the element " + n.Data
		case "link":
			if slices.ContainsFunc(n.Attr, func(a html.Attribute) bool {
				return a.Key == "href" && !strings.HasPrefix(a.Val, "/") && !strings.HasPrefix(a.Val, "data:image/svg+xml;base64,")
			}) {
				return fmt.Sprint("it has a link element with ", n.Attr)
			}
		case "meta":
			for _, a := range n.Attr {
				if a.Key == "http-equiv" && !strings.EqualFold(a.Val, "content-type") {
					return "it has a meta element with " + a.Val
				}
			}
		}
		for _, a := range n.Attr {
			value := strings.ToLower(strings.Join(strings.Fields(a.Val), ""))
			script := strings.HasPrefix(value, "javascript:") || strings.HasPrefix(value, "data:text") ||
				strings.HasPrefix(value, "vbscript:")
			if strings.HasPrefix(a.Key, "on") || a.Key == "srcdoc" || script && slices.Contains(addressAttributes, a.Key) ||
				a.Key == "style" && (strings.Contains(value, "expression(") || strings.Contains(value, "evil.example")) {
				return fmt.Sprintf("<%s> has %s=%q", n.Data, a.Key, a.Val)
			}
		}
	}
	return ""
}

// schemaOf returns the schema of the JSON body of an operation; false if it takes none.
func (h *hostileAPI) schemaOf(o openapitest.Object) (any, bool) {
	body := h.doc.Resolve(o["requestBody"])
	content, _ := body["content"].(openapitest.Object)
	for kind, v := range content {
		if kind == "application/json" {
			return v.(openapitest.Object)["schema"], true
		}
		if !slices.Contains(otherBodies, kind) {
			h.t.Errorf("nothing tests bodies of %s", kind)
		}
	}
	return nil, false
}

// walk walks the operations of a version. Those that the version before has too are left out.
func (h *hostileAPI) walk(before *openapitest.Document) {
	for _, o := range h.doc.Operations() {
		at := []string{"paths", o.Path, strings.ToLower(o.Method)}
		operation := h.doc.At(at...)
		if before != nil && reflect.DeepEqual(before.At(at...), operation) {
			continue
		}
		name := fmt.Sprintf("%d %s %s", h.version, o.Method, o.Path)
		h.walkParameters(name, o, operation)
		schema, ok := h.schemaOf(operation)
		if !ok {
			continue
		}
		text, ok := requestBodies[name]
		if !ok {
			h.t.Errorf("%s: give it a body in requestBodies", name)
			continue
		}
		h.walkBody(name, o, schema, text)
	}
}

// walkBody sets every field of a body to everything that is hostile.
func (h *hostileAPI) walkBody(name string, o *openapitest.Operation, schema any, text string) {
	path, bearer := h.path(o.Path, "", ""), h.bearer(o.Method, o.Path)
	if a := h.call(name, bearer, o.Method, path, strings.NewReader(h.fresh(text))); a.status > 299 {
		h.t.Errorf("%s: the usual body is refused: %d %s", name, a.status, a.body)
	}
	for _, at := range append(h.fields(schema, nil, 0), field{"unknown"}) {
		all := !h.seen[at[len(at)-1]]
		h.seen[at[len(at)-1]] = true
		try := func(input, raw string) {
			var body any
			if err := json.Unmarshal([]byte(h.fresh(text)), &body); err != nil {
				h.t.Fatalf("%s: %v", name, err)
			}
			whole := rawJSON(with(body, at, h.fill(raw)))
			what := fmt.Sprintf("%s: %s is %s", name, at, input)
			if a := h.call(what, bearer, o.Method, path, strings.NewReader(whole)); a.status < 300 {
				h.accepted[name]++
			}
		}
		for i, input := range slices.Sorted(maps.Keys(hostileTexts)) {
			// Fields of one name are mostly read alike: one gets everything, the others a third each.
			if all || i%3 == h.asked%3 {
				try(input, textValue(hostileTexts[input]))
			}
		}
		for input, raw := range hostileValues {
			try(input, raw)
		}
	}
	for i, input := range slices.Sorted(maps.Keys(hostileBodies)) {
		if strings.HasPrefix(input, "10 MB") && i != h.asked%3 {
			continue // one of them for each operation
		}
		a := h.call(name+": the body is "+input, bearer, o.Method, path, strings.NewReader(hostileBodies[input]()))
		if a.status < 300 {
			h.t.Errorf("%s: %s is accepted: %d %.200s", name, input, a.status, a.body)
		}
	}
	a := h.call(name+": compressed", bearer, o.Method, path, strings.NewReader("\x1f\x8b\x08\x00\x00"),
		"Content-Encoding", "gzip")
	if a.status < 300 {
		h.t.Errorf("%s: a compressed body is accepted: %d", name, a.status)
	}
}

// fresh fills in what differs from request to request.
func (h *hostileAPI) fresh(body string) string {
	h.asked++
	if strings.Contains(body, "NEWEST") {
		body = strings.ReplaceAll(body, "NEWEST", h.newest())
	}
	return strings.NewReplacer("TYPE", h.ids["type"], "NEW", fmt.Sprint("name ", h.asked)).Replace(body)
}

// newest is a version that the template has.
func (h *hostileAPI) newest() string {
	var list struct{ Versions []struct{ Version int64 } }
	h.must(1, h.Client("shop"), "GET", "/templates/"+h.ids["template"]+"/versions", "", &list)
	return fmt.Sprint(list.Versions[0].Version)
}

// rawJSON writes a value in which there may be raw ones that are not valid.
func rawJSON(v any) string {
	switch v := v.(type) {
	case json.RawMessage:
		return string(v)
	case map[string]any:
		var parts []string
		for _, key := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, textValue(key)+":"+rawJSON(v[key]))
		}
		return "{" + strings.Join(parts, ",") + "}"
	case []any:
		var parts []string
		for _, one := range v {
			parts = append(parts, rawJSON(one))
		}
		return "[" + strings.Join(parts, ",") + "]"
	}
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// fill puts the address of the trap into a value.
func (s *site) fill(raw string) string {
	_, port, _ := strings.Cut(strings.TrimPrefix(s.trap.URL, "http://"), ":")
	return strings.ReplaceAll(raw, "TRAP", port)
}

// walkParameters sets every parameter of a path, a query and a header to hostile texts.
func (h *hostileAPI) walkParameters(name string, o *openapitest.Operation, operation openapitest.Object) {
	list, _ := operation["parameters"].([]any)
	bearer := h.bearer(o.Method, o.Path)
	for _, v := range list {
		p := h.doc.Resolve(v)
		parameter, _ := p["name"].(string)
		for input, text := range hostileTexts {
			text = h.fill(text)
			path, headers := h.path(o.Path, "", ""), []string(nil)
			switch p["in"] {
			case "path":
				path = h.path(o.Path, parameter, text)
			case "query":
				path += "?" + url.QueryEscape(parameter) + "=" + url.QueryEscape(text)
			case "header":
				if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
					continue // no client can send it
				}
				headers = []string{parameter, text}
			default:
				h.t.Errorf("%s: %s is in %v", name, parameter, p["in"])
			}
			body := io.Reader(nil)
			if valid, ok := requestBodies[name]; ok {
				body = strings.NewReader(h.fresh(valid))
			}
			if strings.Contains(o.Path, "stream") || o.Method == http.MethodDelete && p["in"] != "path" {
				continue
			}
			h.call(fmt.Sprintf("%s: %s is %s", name, parameter, input), bearer, o.Method, path, body, headers...)
		}
	}
}

// readAll reads everything that can be read without a parameter, after all was stored.
func (h *hostileAPI) readAll() {
	for _, o := range h.doc.Operations() {
		if o.Method != http.MethodGet || strings.Contains(o.Path, "stream") {
			continue
		}
		name := fmt.Sprintf("%d GET %s afterwards", h.version, o.Path)
		h.call(name, h.bearer(o.Method, o.Path), o.Method, h.path(o.Path, "", ""), nil)
	}
}
