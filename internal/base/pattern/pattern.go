package pattern

import (
	"regexp"
	"sync"
)

// OnUse returns a regular expression that is compiled at the first call. An invalid one panics then, so a test of
// internal/archtest compiles them all.
func OnUse(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
