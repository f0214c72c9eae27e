package delivery

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/testkit"
	"ingot/internal/notify"
	"ingot/internal/notify/actions"
	"ingot/internal/notify/tracking"
)

// TestTracking sends HTML to users who allow counting or not. Only the mail of those who do has marks, which name the
// message and the version of its template; all others get the same mail as without.
func TestTracking(t *testing.T) {
	t.Parallel()
	marks := regexp.MustCompile(`https://notifications\.example\.com/(links|images)/([A-Za-z0-9_-]+)`)
	const html = `<p><a href="https://shop.example/offer?id=1">Offer</a></p>`
	yes, no := true, false
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		marker, err := tracking.NewMarker(bytes.Repeat([]byte{6}, 32))
		testkit.Must(t, err)
		w := newWorld(t, setup{db: d, change: func(o *Options) { o.Marker = marker }})
		w.start()
		const both = notify.TrackOpens | notify.TrackClicks
		for name, c := range map[string]struct {
			kind          string
			what          notify.Tracking
			wishes        []notify.Wish
			html          string
			links, images int
		}{
			"nothing chosen":          {what: both},
			"refused":                 {what: both, wishes: []notify.Wish{{Tracking: &no}}},
			"taken back":              {what: both, wishes: []notify.Wish{{Tracking: &yes}, {Tracking: &no}}},
			"allowed":                 {what: both, wishes: []notify.Wish{{Tracking: &yes}}, links: 1, images: 1},
			"only opens":              {what: notify.TrackOpens, wishes: []notify.Wish{{Tracking: &yes}}, images: 1},
			"only clicks":             {what: notify.TrackClicks, wishes: []notify.Wish{{Tracking: &yes}}, links: 1},
			"the kind counts no more": {wishes: []notify.Wish{{Tracking: &yes}}},
			"a critical kind":         {kind: "alarm", what: both, wishes: []notify.Wish{{Tracking: &yes}}},
			"without HTML":            {what: both, wishes: []notify.Wish{{Tracking: &yes}}, html: "none"},
		} {
			if c.kind == "" {
				c.kind = "news"
			}
			ref := notify.KindRef{ClientID: "shop", KindID: c.kind}
			testkit.Must(t, w.store.SetTracking(t.Context(), ref, c.what))
			for _, user := range []string{"user-0000001", "user-0000002"} { // the latter chooses nothing
				wishes := []notify.Wish{{Tracking: &no}}
				if user == "user-0000001" {
					wishes = append(wishes, c.wishes...)
				}
				for _, wish := range wishes {
					testkit.Must(t, w.store.ChangePreferences(t.Context(), user,
						notify.PreferenceChange{Wishes: map[notify.KindRef]notify.Wish{ref: wish}}))
				}
			}
			before := len(w.post.all())
			for _, user := range []string{"user-0000001", "user-0000002"} {
				w.finish(w.send(to(notify.ToUser, user), func(r *actions.Request) {
					r.KindID = c.kind
					if r.Content.HTML = html; c.html != "" {
						r.Content.HTML = ""
					}
				}))
			}
			for _, o := range w.post.all()[before:] {
				links, images := c.links, c.images
				if o.UserID == "user-0000002" {
					links, images = 0, 0
				}
				for _, found := range marks.FindAllStringSubmatch(o.Body.HTML, -1) {
					k, err := marker.Open(found[2])
					if err != nil || k.Number != o.Number || k.TemplateID != notify.DefaultTemplate {
						t.Errorf("%s: the mark is %+v, %v, want one of message %d", name, k, err, o.Number)
					}
					if k.Type == notify.Opened {
						images--
						continue
					}
					if links--; k.Target != "https://shop.example/offer?id=1" {
						t.Errorf("%s: the link leads to %q", name, k.Target)
					}
				}
				if links != 0 || images != 0 {
					t.Errorf("%s: %d links and %d images are missing in the mail to %s: %s", name, links, images, o.UserID,
						o.Body.HTML)
				}
				if c.kind == "news" && strings.Count(o.Body.Text+o.Body.HTML, notify.UnsubscribeMark)+
					strings.Count(o.Body.Text+o.Body.HTML, "/unsubscribe/") == 0 {
					t.Errorf("%s: there is no link to unsubscribe", name)
				}
				if strings.Contains(o.Body.Text, "/links/") {
					t.Errorf("%s: the text is marked: %s", name, o.Body.Text)
				}
			}
		}
	})
}
