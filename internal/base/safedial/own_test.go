package safedial

import (
	"net/netip"
	"testing"
	"time"
)

// TestOwn pretends that this machine has an address of the internet. It is not
// parallel, because the addresses of the machine are kept for all.
func TestOwn(t *testing.T) { //nolint:paralleltest // it changes what all share
	mine, other := netip.MustParseAddr("93.184.216.34"), netip.MustParseAddr("93.184.216.35")
	own.Lock()
	own.read, own.known = time.Now().Add(time.Hour), map[netip.Addr]bool{mine: true}
	own.Unlock()
	defer func() {
		own.Lock()
		own.read = time.Time{}
		own.Unlock()
	}()
	if (Guard{}).Permits(mine) || !(Guard{}).Permits(other) {
		t.Error("the machine's own public address is not refused, or another one is")
	}
	if !(Guard{Networks: []netip.Prefix{netip.PrefixFrom(mine, 32)}}).Permits(mine) {
		t.Error("an operator cannot allow it")
	}
	if !Own(netip.MustParseAddr("127.3.4.5")) || !Own(netip.MustParseAddr("::ffff:93.184.216.34")) || Own(other) {
		t.Error("own addresses")
	}
}
