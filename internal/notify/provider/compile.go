package provider

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/go-jose/go-jose/v4"

	"ingot/internal/base/fault"
	"ingot/internal/base/pattern"
	"ingot/internal/notify"
)

// Bounds of definitions.
const (
	maxTemplateURL  = 2000
	maxHeaders      = 30
	maxHeader       = 4 << 10
	maxFields       = 100
	maxDepth        = 20
	maxPlaceholders = 100
	maxRules        = 20
	maxPath         = 200
	maxRate         = 10_000
	maxWeight       = 1000
	maxSegments     = 10
	minMaxText      = 50
	maxMaxText      = 20_000
	maxSecrets      = 20
	minSecret       = 4
	maxSecret       = 4096

	defaultSegments = 4
	// defaultMaxText fits into the 4 KiB that platforms take, also if it has to be escaped.
	defaultMaxText = 1500
)

// headerForm matches the tokens of HTTP.
var headerForm = pattern.OnUse("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$")

// Compiled is a definition that was read.
type Compiled struct {
	name    string
	method  string
	base    string // scheme and host
	path    text
	query   text // after "?"; empty if there is none
	asks    bool // has a query
	headers map[string]text
	kind    string // of the body; "" if there is none
	json    any    // of text, map[string]any, []any and constants
	form    map[string]text
	success notify.AnswerRule
	// permanent and temporary are for answers that are no success.
	permanent, temporary []notify.AnswerRule
	segments             int
	grant                *notify.AccessGrant // nil if no access token is needed
	signer               jose.Signer
	// service, gone and maxText are for devices.
	service string
	gone    []notify.AnswerRule
	maxText int
	secrets map[string]string
	basics  [][]string // the names of secrets that are used together
	// hidden are the forms in which secrets could come back in an answer.
	hidden func() []string
}

// compiler collects what is wrong.
type compiler struct {
	c        *Compiled
	problems []string
	used     map[string]bool // secrets
	count    int             // of placeholders
	fields   []string        // the names of those without arguments
	token    bool            // {{token}} is used
	access   bool            // {{access}} is used
}

func newCompiler(p *notify.Provider) *compiler {
	c := &compiler{used: map[string]bool{}, fields: fields, c: &Compiled{name: p.Name, method: p.Method,
		headers: map[string]text{}}}
	if p.Channel == notify.Push {
		c.fields = deviceFields
	}
	return c
}

func (c *compiler) bad(format string, args ...any) {
	const enough = 10
	if len(c.problems) < enough {
		c.problems = append(c.problems, fmt.Sprintf(format, args...))
	}
}

// Compile reads a provider, or says everything that is wrong with it. Secrets that its definition does not use are
// ignored: see Unused.
func Compile(p notify.Provider) (*Compiled, error) {
	c := newCompiler(&p)
	c.c.segments, c.c.permanent, c.c.temporary, c.c.secrets = p.MaxSegments, p.Permanent, p.Temporary, p.Secrets
	if !notify.ProviderName().MatchString(p.Name) {
		c.bad("the name of a provider has at most 63 characters: a-z, 0-9, - and _, first a-z or 0-9")
	}
	switch c.c.method {
	case "":
		c.c.method = http.MethodPost
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodGet:
	default:
		c.bad(`"method" must be POST, PUT, PATCH or GET`)
	}
	c.address(p.URL)
	c.header(p.Headers)
	c.body(&p.ProviderDefinition)
	c.answers(&p.ProviderDefinition)
	c.bounds(&p.ProviderDefinition)
	c.devices(&p)
	c.grant(&p)
	c.secretValues(p.Secrets)
	if c.count > maxPlaceholders {
		c.bad("it has %d placeholders, at most %d are allowed", c.count, maxPlaceholders)
	}
	if err := fault.Invalid(c.problems...); err != nil {
		return nil, err
	}
	c.c.hidden = sync.OnceValue(c.c.secretForms)
	return c.c, nil
}

// SecretsOf returns the names of the secrets that a definition uses, sorted. What is wrong with it is for Compile.
func SecretsOf(p notify.Provider) []string {
	c := newCompiler(&p)
	c.address(p.URL)
	c.header(p.Headers)
	c.body(&p.ProviderDefinition)
	c.grant(&p)
	return slices.Sorted(maps.Keys(c.used))
}

// Address returns where a provider is: scheme and host of its URL.
func Address(p notify.Provider) string {
	c := newCompiler(&p)
	c.address(p.URL)
	return c.c.base
}

// text reads a text with placeholders.
func (c *compiler) text(s, where string) text {
	t, err := parseText(s, c.fields)
	if err != nil {
		c.bad("%s: %s", where, err)
	}
	for _, name := range t.secrets() {
		if !notify.ProviderName().MatchString(name) {
			c.bad("%s: %.40q is not the name of a secret: use at most 63 of a-z, 0-9, - and _", where, name)
			continue
		}
		c.used[name] = true
	}
	for _, p := range t {
		if p.name == "basic" {
			c.c.basics = append(c.c.basics, p.args)
		}
	}
	c.count += t.placeholders()
	c.token = c.token || t.uses("token")
	c.access = c.access || t.uses("access")
	return t
}

func (c *compiler) address(s string) {
	if len(s) > maxTemplateURL {
		c.bad(`"url" is %d bytes long, at most %d are allowed`, len(s), maxTemplateURL)
		return
	}
	scheme, rest, _ := strings.Cut(s, "://")
	host, path := rest, ""
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		host, path = rest[:i], rest[i:]
	}
	if strings.Contains(scheme+host, opens) {
		c.bad(`"url" has a placeholder before the path: where messages and secrets go is fixed`)
		return
	}
	t := c.text(path, `"url"`)
	// With an x for each value, it has to be an address already.
	plain := t.render(values{}, func(string) string { return "x" })
	if why := notify.CheckProviderURL(scheme + "://" + host + plain); why != "" {
		c.bad(`"url" %s`, why)
		return
	}
	if strings.ContainsFunc(plain, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' }) {
		c.bad(`"url" has a space or another character that must be written as %%20 and so on`)
	}
	c.c.base = scheme + "://" + host
	for i, p := range t {
		at := strings.IndexByte(p.literal, '?')
		if p.dynamic() || at < 0 {
			continue
		}
		c.c.asks = true
		c.c.path = append(slices.Clone(t[:i]), part{literal: p.literal[:at]})
		c.c.query = append(text{{literal: p.literal[at+1:]}}, t[i+1:]...)
		return
	}
	c.c.path = t
}

// ownHeaders are set by the client, or could mislead the router of this server, which believes its own calls.
var ownHeaders = []string{"Host", "Content-Length", "Content-Type", "Transfer-Encoding", "Connection", "Keep-Alive",
	"Te", "Trailer", "Upgrade", "Expect", "Forwarded", "Via", "X-Real-Ip", "Accept-Encoding"}

var ownPrefixes = []string{"Proxy-", "X-Forwarded-", "X-Cf-", "X-Vcap-", "Sec-"}

func (c *compiler) header(all map[string]string) {
	if len(all) > maxHeaders {
		c.bad(`"headers" has %d entries, at most %d are allowed`, len(all), maxHeaders)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		canonical := http.CanonicalHeaderKey(name)
		prefixed := func(p string) bool { return strings.HasPrefix(canonical, p) }
		switch {
		case !headerForm().MatchString(name):
			c.bad(`"headers": %.40q is not the name of a header`, name)
			continue
		case slices.Contains(ownHeaders, canonical) || slices.ContainsFunc(ownPrefixes, prefixed):
			c.bad(`"headers": %s cannot be set`, canonical)
			continue
		case len(all[name]) > maxHeader:
			c.bad(`"headers": %s is longer than %d bytes`, canonical, maxHeader)
			continue
		case c.c.headers[canonical] != nil:
			c.bad(`"headers": %s is there more than once`, canonical)
			continue
		}
		c.c.headers[canonical] = c.text(all[name], `"headers": `+canonical)
	}
}

func (c *compiler) body(d *notify.ProviderDefinition) {
	switch {
	case len(d.JSON) > 0 && d.Form != nil:
		c.bad(`give either "json" or "form", not both`)
	case (len(d.JSON) > 0 || d.Form != nil) && c.c.method == http.MethodGet:
		c.bad(`with "method" GET there is no body: put placeholders into the query of "url"`)
	case len(d.JSON) > 0:
		c.c.kind = "application/json"
		var v any
		decoder := json.NewDecoder(bytes.NewReader(d.JSON))
		decoder.UseNumber()
		if err := decoder.Decode(&v); err != nil {
			c.bad(`"json" is not valid JSON`)
			return
		}
		c.c.json = c.value(v, `"json"`, 0)
	case d.Form != nil:
		c.c.kind = "application/x-www-form-urlencoded"
		if len(d.Form) > maxFields {
			c.bad(`"form" has %d fields, at most %d are allowed`, len(d.Form), maxFields)
			return
		}
		c.c.form = map[string]text{}
		for _, name := range slices.Sorted(maps.Keys(d.Form)) {
			c.name(name, `"form"`)
			c.c.form[name] = c.text(d.Form[name], `"form": `+name)
		}
	}
}

func (c *compiler) name(name, where string) {
	if strings.Contains(name, opens) {
		c.bad("%s: the name %.40q has a placeholder, which only values may have", where, name)
	}
}

// value reads a part of a body in JSON.
func (c *compiler) value(v any, where string, depth int) any {
	if depth > maxDepth {
		c.bad(`"json" is nested more than %d levels deep`, maxDepth)
		return nil
	}
	switch v := v.(type) {
	case string:
		return c.text(v, where)
	case []any:
		for i := range v {
			v[i] = c.value(v[i], where, depth+1)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			c.name(key, where)
			v[key] = c.value(v[key], where, depth+1)
		}
	}
	return v
}

func (c *compiler) answers(d *notify.ProviderDefinition) {
	if d.Success != nil {
		c.c.success = *d.Success
	}
	if len(c.c.success.Status) == 0 {
		c.c.success.Status = []notify.StatusRange{{From: http.StatusOK, To: 299}}
	}
	if len(d.Permanent) > maxRules || len(d.Temporary) > maxRules || len(d.Gone) > maxRules {
		c.bad(`"permanent", "temporary" and "gone" may have %d rules each`, maxRules)
		return
	}
	c.rule(c.c.success, `"success"`)
	for i, r := range d.Permanent {
		c.rule(r, fmt.Sprintf(`"permanent"[%d]`, i))
	}
	for i, r := range d.Temporary {
		c.rule(r, fmt.Sprintf(`"temporary"[%d]`, i))
	}
	for i, r := range d.Gone {
		c.rule(r, fmt.Sprintf(`"gone"[%d]`, i))
	}
}

func (c *compiler) rule(r notify.AnswerRule, where string) {
	if len(r.Status) == 0 && r.JSON == nil {
		c.bad(`%s has neither "status" nor "json"`, where)
	}
	if slices.ContainsFunc(r.Status, func(s notify.StatusRange) bool { return !s.Valid() }) {
		c.bad(`%s: an entry of "status" must be like 200, "2xx" or "500-503"`, where)
	}
	if len(r.Status) > maxRules {
		c.bad(`%s has more than %d entries in "status"`, where, maxRules)
	}
	if r.JSON == nil {
		return
	}
	if !usablePath(r.JSON.Path) {
		c.bad(`%s: "path" must be like messages.0.status, with at most %d bytes`, where, maxPath)
	}
	if _, err := wanted(r.JSON); err != nil {
		c.bad(`%s: "equals" must be a text, a number, true, false or null, or a list of them`, where)
	}
}

// usablePath reports whether a text is the path of a value in JSON.
func usablePath(p string) bool {
	return p != "" && len(p) <= maxPath && !slices.Contains(strings.Split(p, "."), "")
}

// devices checks what is about push notifications.
func (c *compiler) devices(p *notify.Provider) {
	c.c.service, c.c.gone, c.c.maxText = p.TokenOf(), p.Gone, cmp.Or(p.MaxText, defaultMaxText)
	if p.Channel != notify.Push {
		if p.Service != "" || len(p.Gone) > 0 || p.MaxText != 0 {
			c.bad(`"service", "gone" and "max_text" are for providers of the channel %s`, notify.Push)
		}
		return
	}
	if p.MaxSegments != 0 {
		c.bad(`"max_segments" is for text messages: use "max_text"`)
	}
	if !notify.ProviderName().MatchString(p.TokenOf()) {
		c.bad(`"service" has at most 63 characters: a-z, 0-9, - and _, first a-z or 0-9`)
	}
	if p.MaxText != 0 && (p.MaxText < minMaxText || p.MaxText > maxMaxText) {
		c.bad(`"max_text" must be from %d to %d bytes`, minMaxText, maxMaxText)
	}
	if !c.token {
		c.bad("{{token}} is not used: it says which device gets the message")
	}
}

func (c *compiler) bounds(d *notify.ProviderDefinition) {
	if d.Rate < 0 || d.Rate > maxRate || d.Rate != d.Rate || d.Rate > 0 && d.Rate < 0.001 {
		c.bad(`"rate_per_second" must be from 0.001 to %d, or 0 for no limit`, maxRate)
	}
	if d.Weight < 0 || d.Weight > maxWeight {
		c.bad(`"weight" must be from 0, for a reserve, to %d`, maxWeight)
	}
	if d.MaxSegments < 0 || d.MaxSegments > maxSegments {
		c.bad(`"max_segments" must be from 1 to %d`, maxSegments)
	}
	if c.c.segments == 0 {
		c.c.segments = defaultSegments
	}
	if raw, err := json.Marshal(d); err != nil || len(raw) > notify.MaxProvider {
		c.bad("the definition is longer than %d bytes", notify.MaxProvider)
	}
}

func (c *compiler) secretValues(have map[string]string) {
	if len(c.used) > maxSecrets {
		c.bad("it uses %d secrets, at most %d are allowed", len(c.used), maxSecrets)
	}
	for _, name := range slices.Sorted(maps.Keys(c.used)) {
		if _, ok := have[name]; !ok {
			c.bad(`the secret %q is used, but has no value: set it in "secrets"`, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(have)) {
		v := have[name]
		if c.c.grant != nil && name == c.c.grant.Key {
			v = strings.NewReplacer("\r", "", "\n", "").Replace(v) // PEM has lines
		}
		if len(v) < minSecret || len(v) > maxSecret || strings.ContainsFunc(v, unprintable) {
			c.bad("the secret %.63q must have %d to %d characters, without line breaks and control characters", name,
				minSecret, maxSecret)
		}
	}
}

// unprintable matches control characters and what is not UTF-8.
func unprintable(r rune) bool { return r < ' ' || r == 0x7f || r == '\ufffd' }

var errTooLong = errors.New("the request would be too long")
