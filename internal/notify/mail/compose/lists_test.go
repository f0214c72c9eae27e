package compose

import (
	"net/mail"
	"strings"
	"testing"
)

// TestThreadAndList: mail of a conversation refers to one message, and mail of a kind is in a list named after it.
func TestThreadAndList(t *testing.T) {
	t.Parallel()
	c, err := New(Identity{From: "a@ingot.example", Domain: "mail.ingot.example"})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ thread, kind, client, unsubscribe, root, list string }{
		{"", "news", "shop", "https://n.example/u/t", "", "<news.shop.mail.ingot.example>"},
		{"thread-1a", "news", "shop", "", "<thread-1a@mail.ingot.example>", ""},
		{"", "", "shop", "https://n.example/u/t", "", ""},
		{"", "Weekly News!", "shop", "https://n.example/u/t", "", "<weekly-news-HASH.shop.mail.ingot.example>"},
		{"", "a.b", "x>\r\nBcc: e@e.org", "https://n.example/u/t", "", "<a-b-HASH.x---bcc--e-e-org-HASH.mail.ingot.example>"},
		{"", "Grüße", "🎉", "https://n.example/u/t", "", "<gr--e-HASH.HASH.mail.ingot.example>"},
		{"", strings.Repeat("k", 300), "-", "https://n.example/u/t", "",
			"<" + strings.Repeat("k", 32) + "-HASH.HASH.mail.ingot.example>"},
	} {
		o := outgoing()
		o.Thread, o.KindID, o.ClientID, o.Unsubscribe = test.thread, test.kind, test.client, test.unsubscribe
		m, err := c.Message(o, now)
		if err != nil {
			t.Fatal(err)
		}
		read, err := mail.ReadMessage(strings.NewReader(string(m.Header) + "\r\n"))
		if err != nil {
			t.Fatal(err)
		}
		h := read.Header
		if h.Get("References") != test.root || h.Get("In-Reply-To") != test.root || h.Get("Bcc") != "" {
			t.Errorf("%+v: references %q, in reply to %q", test, h.Get("References"), h.Get("In-Reply-To"))
		}
		got, parts := h.Get("List-Id"), strings.Split(test.list, "HASH")
		for i, part := range parts {
			if !strings.HasPrefix(got, part) {
				t.Errorf("%+v: the list is %q, rest %q", test, h.Get("List-Id"), got)
				break
			}
			if got = got[len(part):]; i < len(parts)-1 {
				if len(got) < 10 || strings.Trim(got[:10], "0123456789abcdef") != "" {
					t.Errorf("%+v: the list is %q, rest %q", test, h.Get("List-Id"), got)
					break
				}
				got = got[10:]
			}
		}
		if got != "" {
			t.Errorf("%+v: the list ends with %q", test, got)
		}
	}
	for _, bad := range []string{"a@b", "x>\r\nBcc: e@e.org", strings.Repeat("t", 300)} {
		o := outgoing()
		o.Thread = bad
		if m, err := c.Message(o, now); err == nil {
			t.Errorf("%q is taken: %s", bad, m.Header)
		}
	}
	if listLabel("News") == listLabel("news") || listLabel("a.b") == listLabel("a-b") {
		t.Error("different kinds have the same list")
	}
}
