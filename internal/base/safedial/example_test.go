package safedial_test

import (
	"fmt"
	"net/netip"

	"ingot/internal/base/safedial"
)

// Addresses inside the operator's network are refused unless they are allowed.
func ExampleParseGuard() {
	g, err := safedial.ParseGuard("10.1.0.0/16")
	if err != nil {
		panic(err)
	}
	for _, a := range []string{"93.184.215.14", "10.1.2.3", "10.2.0.1", "127.0.0.1", "169.254.169.254"} {
		fmt.Println(a, g.Permits(netip.MustParseAddr(a)))
	}
	// Output:
	// 93.184.215.14 true
	// 10.1.2.3 true
	// 10.2.0.1 false
	// 127.0.0.1 false
	// 169.254.169.254 false
}
