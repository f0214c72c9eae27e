package drain

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// sourceTypes are the types of sources that a drain can be restricted to, as in Cloud
// Foundry.
var sourceTypes = []string{"API", "STG", "RTR", "LGR", "APP", "SSH", "CELL", "PROXY", "HEALTH"}

// sourceFilter restricts a drain to the lines of some sources, or to those of all others.
type sourceFilter struct {
	types   []string
	exclude bool
}

// parseSources reads the comma-separated lists of a drain's URL.
func parseSources(include, exclude string) (sourceFilter, error) {
	if include != "" && exclude != "" {
		return sourceFilter{}, errors.New(
			"include-log-source-types and exclude-log-source-types cannot be used at the same time")
	}
	f := sourceFilter{exclude: exclude != ""}
	for word := range strings.SplitSeq(include+exclude, ",") {
		word = strings.ToUpper(strings.TrimSpace(word))
		switch {
		case word == "":
		case !slices.Contains(sourceTypes, word):
			return f, fmt.Errorf("its URL names a source type that is not known; the types are %s",
				strings.Join(sourceTypes, ", "))
		default:
			f.types = append(f.types, word)
		}
	}
	return f, nil
}

// wants reports whether lines of a source, such as APP/PROC/WEB, are sent.
func (f sourceFilter) wants(source string) bool {
	if len(f.types) == 0 {
		return true
	}
	kind, _, _ := strings.Cut(strings.ToUpper(source), "/")
	return slices.Contains(f.types, kind) != f.exclude
}
