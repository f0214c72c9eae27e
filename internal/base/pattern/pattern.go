package pattern

import (
	"regexp"
	"sync"
)

// OnUse returns a regular expression that is compiled at the first call. An invalid one panics then, so each
// pattern needs a test that uses it.
func OnUse(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
