package provider

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"ingot/internal/notify/outbound"
	"ingot/internal/notify/template"
)

// hider replaces values that must not be in what is stored and shown.
type hider struct {
	*strings.Replacer
	longest int // of the forms of the values
}

// forms returns how an answer may repeat a value.
func forms(v string) []string {
	quoted, _ := json.Marshal(v)
	inJSON := string(quoted[1 : len(quoted)-1])
	return []string{v, url.QueryEscape(v), url.PathEscape(v), inJSON, strings.ReplaceAll(inJSON, "/", `\/`)}
}

// secretForms returns how an answer may repeat the secrets.
func (c *Compiled) secretForms() []string {
	var all []string
	for _, v := range c.secrets {
		all = append(all, forms(v)...)
	}
	for _, pair := range c.basics {
		all = append(all, part{name: "basic", args: pair}.value(values{secrets: c.secrets}))
	}
	return all
}

// hiding returns what hides the secrets and other values. They are replaced together: a secret that is also within
// another value would leave the rest of that one.
func (c *Compiled) hiding(more ...string) hider {
	all := slices.Clone(c.hidden())
	for _, v := range more {
		if v != "" {
			all = append(all, forms(v)...)
		}
	}
	// The longest first, so that none is left in part.
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	h := hider{}
	var pairs []string
	for _, f := range all {
		h.longest = max(h.longest, len(f))
		pairs = append(pairs, f, "…")
	}
	h.Replacer = strings.NewReplacer(pairs...)
	return h
}

// line returns the beginning of a text as one line. The values are hidden before anything is cut off, because of one
// that is cut the part that is left would not be found.
func (h hider) line(s string, most int) string {
	text := h.Replace(s)
	if len(s) >= outbound.MaxAnswer { // the end may be such a part already
		text = text[:max(0, len(text)-h.longest)]
	}
	return cut(template.OneLine(text), most)
}

const (
	maxSaid = 150 // of an answer
	maxWhy  = 400 // of an error, which may have an answer
)

// cut shortens a text to n bytes.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
