package digits_test

import (
	"math"
	"testing"

	"ingot/internal/base/digits"
)

func TestShort(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{0: "0", 0.1: "0.1", 0.0000123456: "0.00001235", 1234567: "1235000",
		-12.3456: "-12.35", 1e21: "1000000000000000000000", math.Inf(1): "+Inf"} {
		if got := digits.Short(v, 4); got != want {
			t.Errorf("%g is %q, want %q", v, got, want)
		}
	}
}

func TestMilliseconds(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{0: "0 ms", 0.9995: "1 ms", 2.502: "2.5 ms", 0.01234: "0.0123 ms",
		999: "999 ms", 12345: "12.3 s"} {
		if got := digits.Milliseconds(v); got != want {
			t.Errorf("%g is %q, want %q", v, got, want)
		}
	}
}
