package api

import (
	"fmt"
	"slices"
	"strings"

	"ingot/internal/cf"
	"ingot/internal/fault"
)

// parseSelector reads a label selector: k, !k, k=v, k==v, k!=v, k in (a,b),
// k notin (a,b), separated by commas.
func parseSelector(text string) ([]cf.LabelRequirement, error) {
	var out []cf.LabelRequirement
	for _, part := range splitOutside(text) {
		req, err := parseRequirement(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		out = append(out, req)
	}
	return out, nil
}

// splitOutside splits at commas that stand outside of parentheses.
func splitOutside(s string) []string {
	var parts []string
	depth, start := 0, 0
	for i, c := range s {
		switch c {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				parts = append(parts, s[start:i])
				start = i + 1
			}
		}
	}
	return append(parts, s[start:])
}

func parseRequirement(s string) (cf.LabelRequirement, error) {
	bad := badQuery("Invalid label_selector value")
	for _, set := range []struct {
		word string
		op   cf.LabelOp
	}{{" notin ", cf.LabelNotIn}, {" in ", cf.LabelIn}} {
		key, rest, ok := strings.Cut(s, set.word)
		if !ok {
			continue
		}
		inner, ok := strings.CutPrefix(strings.TrimSpace(rest), "(")
		inner, closed := strings.CutSuffix(inner, ")")
		if !ok || !closed || !validLabelKey(strings.TrimSpace(key)) {
			return cf.LabelRequirement{}, bad
		}
		req := cf.LabelRequirement{Key: strings.TrimSpace(key), Op: set.op}
		for _, v := range strings.Split(inner, ",") {
			req.Values = append(req.Values, strings.TrimSpace(v))
		}
		return req, nil
	}
	for _, pair := range []struct {
		word string
		op   cf.LabelOp
	}{{"!=", cf.LabelNotIn}, {"==", cf.LabelIn}, {"=", cf.LabelIn}} {
		if key, value, ok := strings.Cut(s, pair.word); ok {
			if !validLabelKey(strings.TrimSpace(key)) {
				return cf.LabelRequirement{}, bad
			}
			return cf.LabelRequirement{Key: strings.TrimSpace(key), Op: pair.op, Values: []string{strings.TrimSpace(value)}}, nil
		}
	}
	req := cf.LabelRequirement{Key: s, Op: cf.LabelExists}
	if key, ok := strings.CutPrefix(s, "!"); ok {
		req = cf.LabelRequirement{Key: key, Op: cf.LabelAbsent}
	}
	if !validLabelKey(req.Key) {
		return cf.LabelRequirement{}, bad
	}
	return req, nil
}

// validLabelKey accepts NAME and PREFIX/NAME.
func validLabelKey(key string) bool {
	if prefix, name, ok := strings.Cut(key, "/"); ok {
		return prefix != "" && len(prefix) <= 253 && validLabelWord(name)
	}
	return validLabelWord(key)
}

func validLabelWord(s string) bool {
	if s == "" || len(s) > 63 {
		return false
	}
	alphanumeric := func(c byte) bool {
		return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
	}
	for i := range len(s) {
		if !alphanumeric(s[i]) && !strings.ContainsRune("-_.", rune(s[i])) {
			return false
		}
	}
	return alphanumeric(s[0]) && alphanumeric(s[len(s)-1])
}

// metadataPatch is metadata in a request: null removes a key.
type metadataPatch struct {
	Labels      map[string]*string `json:"labels"`
	Annotations map[string]*string `json:"annotations"`
}

// apply merges the patch into m.
func (p *metadataPatch) apply(m *cf.Metadata) error {
	if p == nil {
		return nil
	}
	var problems []string
	merge := func(dest *map[string]string, patch map[string]*string, check func(k, v string) string) {
		for k, v := range patch {
			if *dest == nil {
				*dest = map[string]string{}
			}
			if v == nil {
				delete(*dest, k)
				continue
			}
			if problem := check(k, *v); problem != "" {
				problems = append(problems, problem)
			}
			(*dest)[k] = *v
		}
	}
	merge(&m.Labels, p.Labels, func(k, v string) string {
		if problem := checkMetadataKey("label", k); problem != "" {
			return problem
		}
		if v != "" && !validLabelWord(v) {
			return fmt.Sprintf("Metadata label value error: '%s' must be at most 63 characters: letters, digits, '-', '_' and '.', beginning and ending with a letter or digit", v)
		}
		return ""
	})
	merge(&m.Annotations, p.Annotations, func(k, v string) string {
		if problem := checkMetadataKey("annotation", k); problem != "" {
			return problem
		}
		if len([]rune(v)) > 5000 {
			return fmt.Sprintf("Metadata annotation value error: the value of '%s' is greater than 5000 characters", k)
		}
		return ""
	})
	slices.Sort(problems)
	return fault.Invalid(problems...)
}

func checkMetadataKey(kind, key string) string {
	if !validLabelKey(key) {
		return fmt.Sprintf("Metadata %s key error: '%s' must be at most 63 characters: letters, digits, '-', '_' and '.', with an optional DNS prefix before '/'", kind, key)
	}
	if prefix, _, ok := strings.Cut(key, "/"); ok && strings.EqualFold(prefix, "cloudfoundry.org") {
		return fmt.Sprintf("Metadata %s key error: prefix 'cloudfoundry.org' is reserved", kind)
	}
	return ""
}
