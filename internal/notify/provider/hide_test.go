package provider

import (
	"strings"
	"testing"

	"ingot/internal/notify/outbound"
)

// TestHiddenBeforeCut has values across the place where a text is cut: no part of them is left.
func TestHiddenBeforeCut(t *testing.T) {
	t.Parallel()
	value := "Zq9/" + strings.Repeat("Zq9+", 20)
	c := &Compiled{hidden: func() []string { return forms("Zq9/Zq9+Zq9+") }}
	for name, private := range map[string][]string{"secret": nil, "token": {value}} {
		hide := value
		if private == nil {
			hide = "Zq9/Zq9+Zq9+"
		}
		for _, form := range forms(hide) {
			for n := range maxSaid + 1 {
				a := &answer{Answer: outbound.Answer{Status: 400}, body: []byte(strings.Repeat("x", n) + form)}
				if got := c.judge(a, private...).Reason; strings.Contains(got, "Z") {
					t.Fatalf("%s after %d: %q", name, n, got)
				}
			}
			long := strings.Repeat(form, outbound.MaxAnswer/len(form)+1)[:outbound.MaxAnswer]
			if got := c.hiding(private...).line(long, outbound.MaxAnswer); strings.Contains(got, "Z") {
				t.Errorf("%s at the end: %q", name, got)
			}
		}
	}
}
