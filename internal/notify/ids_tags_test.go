package notify_test

import (
	"bytes"
	"strings"
	"testing"

	"ingot/internal/notify"
)

func TestTags(t *testing.T) {
	t.Parallel()
	key := bytes.Repeat([]byte{1}, 32)
	ids, err := notify.NewIDs(key)
	if err != nil {
		t.Fatal(err)
	}
	tags, err := notify.NewTags(key)
	if err != nil {
		t.Fatal(err)
	}
	other, err := notify.NewTags(bytes.Repeat([]byte{2}, 32))
	if err != nil {
		t.Fatal(err)
	}
	id := ids.Message(notify.MessageNumber(7, 3))
	tag := tags.Tag(id)
	if len(tag) != notify.TagLength || tag != strings.ToLower(tag) ||
		strings.Trim(tag, "abcdefghijklmnopqrstuvwxyz234567") != "" {
		t.Errorf("the tag is %q", tag)
	}
	for _, good := range []string{tag, strings.ToUpper(tag)} {
		if got, ok := tags.ID(good); !ok || got != id {
			t.Errorf("%q: got %q, %v", good, got, ok)
		}
	}
	bad := []string{"", id, tag + "a", tag[1:], other.Tag(id), strings.Repeat("a", len(tag)), tag[:26],
		tags.Tag(ids.Message(8))[:26] + tag[26:], tag[:41] + "\n", tag[:41] + "é"}
	for i := range tag { // each of its characters counts, also the bits that encode nothing
		for _, c := range "ab7" {
			if changed := tag[:i] + string(c) + tag[i+1:]; changed != tag {
				bad = append(bad, changed)
			}
		}
	}
	for _, b := range bad {
		if got, ok := tags.ID(b); ok {
			t.Errorf("%q is taken for %q", b, got)
		}
	}
	for _, b := range []string{"", "m-1", strings.ToUpper(id), id + "0", strings.ReplaceAll(id, "-", "")} {
		if got := tags.Tag(b); got != "" {
			t.Errorf("the tag of %q is %q", b, got)
		}
	}
	if _, err := notify.NewTags(key[1:]); err == nil {
		t.Error("a short key is taken")
	}
}

func TestWithoutTag(t *testing.T) {
	t.Parallel()
	const tag = "abcdefghijklmnopqrstuvwxyz234567abcdefghij"
	for text, want := range map[string]string{
		"250 ok": "250 ok", "": "",
		"550 <b+" + tag + "@x.example> refused, b+" + tag:             "550 <b+…@x.example> refused, b+…",
		"550 <B+" + strings.ToUpper(tag) + "@X.EXAMPLE>":              "550 <B+…@X.EXAMPLE>",
		"550 Öß b=2B" + strings.ToUpper(tag[:20]) + tag[20:] + "=40x": "550 Öß b=2B…=40x",
		"550 from b+" + tag[:41] + "…":                                "550 from b+…",
		"550 from b+" + strings.ToUpper(tag[:30]) + "…":               "550 from b+…",
		"550 from b+" + tag[:3] + "…":                                 "550 from b+…",
		"550 from <b+" + tag[:20] + ">":                               "550 from <b+…",
		"550 from b%2B" + tag[:12]:                                    "550 from b%2B…",
		"550 a":                                                       "550 a",
		"550 see help@abc…":                                           "550 see help@abc…",
	} {
		if got := notify.WithoutTag(text, tag); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
		if got := notify.WithoutTag(text, ""); got != text {
			t.Errorf("%q without a tag: got %q", text, got)
		}
	}
}

// TestThread: a conversation depends on each of the client, the key and the recipient, and on nothing else.
func TestThread(t *testing.T) {
	t.Parallel()
	ids, err := notify.NewIDs(bytes.Repeat([]byte{1}, 32))
	if err != nil {
		t.Fatal(err)
	}
	other, err := notify.NewIDs(bytes.Repeat([]byte{2}, 32))
	if err != nil {
		t.Fatal(err)
	}
	id := ids.Thread("shop", "order-1", "ann@example.com")
	if got := ids.Thread("shop", "order-1", "Ann@Example.com"); got != id || len(id) != len("thread-")+32 {
		t.Errorf("got %q and %q", id, got)
	}
	seen := map[string]bool{id: true}
	for _, different := range []string{ids.Thread("shop2", "order-1", "ann@example.com"),
		ids.Thread("shop", "order-2", "ann@example.com"), ids.Thread("shop", "order-1", "bob@example.com"),
		ids.Thread("shoporder", "-1", "ann@example.com"), ids.Thread("shop", "order-1a", "nn@example.com"),
		ids.Thread("", "shoporder-1", "ann@example.com"), other.Thread("shop", "order-1", "ann@example.com")} {
		if seen[different] {
			t.Errorf("%q is the same conversation", different)
		}
		seen[different] = true
	}
	long := ids.Thread("shop", strings.Repeat("secret", 30), "ann@example.com")
	if len(long) != len(id) || strings.Contains(long, "secret") {
		t.Errorf("got %q", long)
	}
	for key, good := range map[string]bool{"": true, "order-4711": true, "Größe 🎉": true, strings.Repeat("x", 200): true,
		strings.Repeat("x", 201): false, "a\r\nBcc: x": false, "a\x00": false, "\xff": false} {
		if why := notify.CheckThread(key); (why == "") != good {
			t.Errorf("%q: %q", key, why)
		}
	}
}
