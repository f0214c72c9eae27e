package listing

import (
	"strings"

	"ingot/internal/platform"
)

// parseSelector parses a label selector: k, !k, k=v, k==v, k!=v, k in (a,b),
// k notin (a,b), separated by commas.
func parseSelector(text string) ([]platform.LabelRequirement, error) {
	var out []platform.LabelRequirement
	for _, part := range splitOutside(text) {
		req, err := parseRequirement(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		out = append(out, req)
	}
	return out, nil
}

// splitOutside splits at commas outside of parentheses.
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

func parseRequirement(s string) (platform.LabelRequirement, error) {
	bad := BadQuery("Invalid label_selector value")
	for _, set := range []struct {
		word string
		op   platform.LabelOp
	}{{" notin ", platform.LabelNotIn}, {" in ", platform.LabelIn}} {
		key, rest, ok := strings.Cut(s, set.word)
		if !ok {
			continue
		}
		inner, ok := strings.CutPrefix(strings.TrimSpace(rest), "(")
		inner, closed := strings.CutSuffix(inner, ")")
		if !ok || !closed || !platform.ValidLabelKey(strings.TrimSpace(key)) {
			return platform.LabelRequirement{}, bad
		}
		req := platform.LabelRequirement{Key: strings.TrimSpace(key), Op: set.op}
		for _, v := range strings.Split(inner, ",") {
			req.Values = append(req.Values, strings.TrimSpace(v))
		}
		return req, nil
	}
	for _, pair := range []struct {
		word string
		op   platform.LabelOp
	}{{"!=", platform.LabelNotIn}, {"==", platform.LabelIn}, {"=", platform.LabelIn}} {
		if key, value, ok := strings.Cut(s, pair.word); ok {
			if !platform.ValidLabelKey(strings.TrimSpace(key)) {
				return platform.LabelRequirement{}, bad
			}
			return platform.LabelRequirement{Key: strings.TrimSpace(key), Op: pair.op,
				Values: []string{strings.TrimSpace(value)}}, nil
		}
	}
	req := platform.LabelRequirement{Key: s, Op: platform.LabelExists}
	if key, ok := strings.CutPrefix(s, "!"); ok {
		req = platform.LabelRequirement{Key: key, Op: platform.LabelAbsent}
	}
	if !platform.ValidLabelKey(req.Key) {
		return platform.LabelRequirement{}, bad
	}
	return req, nil
}
