package platform

import (
	"fmt"
	"slices"
	"strings"

	"ingot/internal/base/fault"
)

// maxAnnotation is how many characters an annotation may have.
const maxAnnotation = 5000

// CheckMetadata says what is wrong with labels and annotations that are to be
// set. Those that are nil remove a key, whatever it is: one that got there
// under older rules must be removable.
func CheckMetadata(labels, annotations map[string]*string) error {
	var problems []string
	for k, v := range labels {
		if v == nil {
			continue
		}
		if problem := checkMetadataKey("label", k); problem != "" {
			problems = append(problems, problem)
		}
		if *v != "" && !validLabelWord(*v) {
			problems = append(problems,
				fmt.Sprintf("Metadata label value error: '%s' must be at most 63 characters: alphanumerics, '-', '_' and '.', "+
					"beginning and ending with an alphanumeric", *v))
		}
	}
	for k, v := range annotations {
		if v == nil {
			continue
		}
		if problem := checkMetadataKey("annotation", k); problem != "" {
			problems = append(problems, problem)
		}
		if len([]rune(*v)) > maxAnnotation {
			problems = append(problems,
				fmt.Sprintf("Metadata annotation value error: the value of '%s' is greater than %d characters", k, maxAnnotation))
		}
	}
	slices.Sort(problems)
	return fault.Invalid(problems...)
}

func checkMetadataKey(kind, key string) string {
	if !ValidLabelKey(key) {
		return fmt.Sprintf("Metadata %s key error: '%s' must be at most 63 characters: alphanumerics, '-', '_' and '.', "+
			"with an optional DNS prefix before '/'", kind, key)
	}
	if prefix, _, ok := strings.Cut(key, "/"); ok && strings.EqualFold(prefix, "cloudfoundry.org") {
		return fmt.Sprintf("Metadata %s key error: prefix 'cloudfoundry.org' is reserved", kind)
	}
	return ""
}

// ValidLabelKey accepts NAME and PREFIX/NAME, the prefix being a DNS name.
func ValidLabelKey(key string) bool {
	prefix, name, ok := strings.Cut(key, "/")
	if !ok {
		return validLabelWord(key)
	}
	if len(prefix) > 253 || !strings.Contains(prefix, ".") {
		return false
	}
	for _, label := range strings.Split(prefix, ".") {
		if !validHostLabel(label) {
			return false
		}
	}
	return validLabelWord(name)
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
