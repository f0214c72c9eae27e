package notify

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestIDs(t *testing.T) {
	t.Parallel()
	ids, err := NewIDs(append(bytes.Repeat([]byte{7}, 16), bytes.Repeat([]byte{8}, 16)...))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(0, math.MaxInt64).Draw(t, "number")
		id := ids.Message(n)
		if got, ok := ids.MessageNumber(id); !ok || got != n {
			t.Fatalf("%d became %s and then %d, %t", n, id, got, ok)
		}
		if _, ok := ids.SendNumber(id); ok {
			t.Fatalf("the id %s of a message is one of a send too", id)
		}
		if got, ok := ids.SendNumber(ids.Send(n)); !ok || got != n {
			t.Fatalf("send %d became %d, %t", n, got, ok)
		}
	})
	good := ids.Message(1)
	for _, bad := range []string{"", "x", strings.ToUpper(good), good[1:] + "0", good[:35] + "g", strings.Repeat("0", 36),
		strings.ReplaceAll(good, "-", "") + "0000"} {
		if n, ok := ids.MessageNumber(bad); ok {
			t.Errorf("%q is message %d", bad, n)
		}
	}
	if _, err := NewIDs(make([]byte, 16)); err == nil {
		t.Error("a short key is taken")
	}
}

func TestMessageNumbers(t *testing.T) {
	t.Parallel()
	for _, send := range []int64{0, 1, 12345, 1 << 38} {
		for _, i := range []int{0, 1, MaxRecipients} {
			if got := SendOf(MessageNumber(send, i)); got != send {
				t.Errorf("message %d of send %d belongs to %d", i, send, got)
			}
		}
	}
}
