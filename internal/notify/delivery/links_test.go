package delivery

import (
	"strings"
	"testing"
	"time"

	"ingot/internal/base/testkit"
	"ingot/internal/notify"
)

// TestLinks sees what links of mails are for: everything only where the sender cannot learn the link. A
// client's template can put it into the address of a picture, so it gets one for the kind. TestChatAndWebhook has that
// of a webhook.
func TestLinks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	testkit.Must(t, w.store.CreateTemplate(t.Context(), notify.Template{ID: "own", Name: "own", Subject: "x",
		Text: "https://shop.example.com/?u={{.UnsubscribeID}}", Updated: time.Now()}))
	w.start()
	for i, tc := range []struct {
		template string
		only     bool
	}{{"", false}, {"own", true}} {
		testkit.Must(t, w.store.AssignTemplate(t.Context(), notify.Association{ClientID: "shop", KindID: "news"},
			tc.template))
		w.finish(w.send())
		o := w.post.all()[i]
		token := o.Unsubscribe[strings.LastIndex(o.Unsubscribe, "/")+1:]
		g, err := w.unsub.Open(token)
		if err != nil || g.UserID == "" || g.OnlyKind != tc.only {
			t.Errorf("template %q: the link is for %+v (%v), want only the kind: %t", tc.template, g, err, tc.only)
		}
		if tc.only && !strings.Contains(o.Body.Text, token) {
			t.Errorf("the template shows another token than the header: %s", o.Body.Text)
		}
	}
}
