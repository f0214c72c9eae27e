package plural_test

import (
	"testing"

	"ingot/internal/base/plural"
)

func TestCount(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		n         int
		one, want string
	}{
		{0, "notification", "0 notifications"},
		{1, "notification", "1 notification"},
		{2, "notification", "2 notifications"},
		{-1, "file", "-1 files"},
		{2, "service instance", "2 service instances"},
		{2, "process", "2 processes"},
		{1, "process", "1 process"},
		{2, "switch", "2 switches"},
		{2, "policy", "2 policies"},
		{2, "key", "2 keys"},
		{2, "y", "2 ys"},
	} {
		if got := plural.Count(tc.n, tc.one); got != tc.want {
			t.Errorf("%d %s: %q, want %q", tc.n, tc.one, got, tc.want)
		}
	}
}
