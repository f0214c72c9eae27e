package httpext

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"ingot/internal/base/fault"
	"ingot/internal/base/token"
	"ingot/internal/base/web"
	"ingot/internal/notify"
	"ingot/internal/notify/tracking"
)

// registerTracking adds the routes that say what is counted of the mail of a kind, and those that marked mail leads to.
func (f *handlers) registerTracking(g *web.Group) {
	manager := web.Scope(scopeManage)
	g.Handle("GET", "/kinds/{kind}/tracking", web.Scope(scopeManage, scopeAdmin),
		f.showOfKind(func(k *notify.Kind) any { return presentTracking(k) }))
	g.Handle("PUT", "/kinds/{kind}/tracking", manager, f.setTracking)
	g.Handle("DELETE", "/kinds/{kind}/tracking", manager, f.deleteTracking)

	recipient := web.Own("the sealed mark in the path, which only the recipient's mail contains")
	limited := g.Limited(&visitors{address: f.Address, of: map[string]*rate.Limiter{}})
	limited.Handle("GET", tracking.LinkPath+"{mark}", recipient, f.followLink)
	limited.Handle("GET", tracking.ImagePath+"{mark}", recipient, f.showImage)
}

// trackingBody is what is counted, and what that means.
type trackingBody struct {
	Opens       bool   `json:"opens"`
	Clicks      bool   `json:"clicks"`
	Description string `json:"description"`
}

func presentTracking(k *notify.Kind) trackingBody {
	b := trackingBody{Opens: k.Tracking.Has(notify.TrackOpens), Clicks: k.Tracking.Has(notify.TrackClicks)}
	const consent = ", of mail to recipients who allow it"
	switch {
	case k.Tracking == 0:
		b.Description = "neither opens nor clicks are counted"
	case k.Critical:
		b.Description = "not counted, because the kind is critical"
	case !b.Clicks:
		b.Description = "opens are counted" + consent
	case !b.Opens:
		b.Description = "clicks are counted" + consent
	default:
		b.Description = "opens and clicks are counted" + consent
	}
	return b
}

// setTracking sets what is counted of the mail of later sends.
func (f *handlers) setTracking(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Opens  bool `json:"opens"`
		Clicks bool `json:"clicks"`
	}
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	var t notify.Tracking
	if body.Opens {
		t |= notify.TrackOpens
	}
	if body.Clicks {
		t |= notify.TrackClicks
	}
	if t == 0 {
		return fault.Invalid(`"opens", "clicks" or both must be true; DELETE ends counting`)
	}
	ref := kindOf(r)
	k, err := f.Store.Kind(r.Context(), ref)
	if err != nil {
		return missing(err, "Notification", ref.KindID)
	}
	if k.Critical {
		return fault.New(fault.Conflict, "The kind %q is critical: recipients cannot choose, so nothing is counted",
			ref.KindID)
	}
	err = f.Store.SetTracking(r.Context(), ref, t)
	return web.Answer(w, http.StatusOK, presentTracking(&notify.Kind{Tracking: t}),
		missing(err, "Notification", ref.KindID))
}

// deleteTracking lets nothing be counted of the mail of later sends.
func (f *handlers) deleteTracking(w http.ResponseWriter, r *http.Request) error {
	ref := kindOf(r)
	return web.Answer(w, http.StatusNoContent, nil,
		missing(f.Store.SetTracking(r.Context(), ref, 0), "Notification", ref.KindID))
}

// openMark decodes the mark in the path.
func (f *handlers) openMark(r *http.Request, of notify.ReactionType) (tracking.Mark, error) {
	if f.Marker == nil {
		return tracking.Mark{}, tracking.ErrMark
	}
	k, err := f.Marker.Open(web.Param(r, "mark"))
	if err == nil && k.Type != of {
		err = tracking.ErrMark
	}
	return k, err
}

// followLink leads to the address of a link.
func (f *handlers) followLink(w http.ResponseWriter, r *http.Request) error {
	k, err := f.openMark(r, notify.Clicked)
	if err != nil {
		return invalidLink(w)
	}
	f.count(r, k)
	header := w.Header()
	header.Set("Cache-Control", "no-store") // each visit counts
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Robots-Tag", "noindex")
	header.Set("Location", k.Target)
	w.WriteHeader(http.StatusFound)
	return nil
}

// pixel is a transparent image of one pixel.
const pixel = "GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff!\xf9\x04\x01\x00\x00\x00\x00,\x00\x00\x00\x00" +
	"\x01\x00\x01\x00\x00\x02\x02D\x01\x00;"

// showImage answers with the image that counts as opened.
func (f *handlers) showImage(w http.ResponseWriter, r *http.Request) error {
	k, err := f.openMark(r, notify.Opened)
	if err != nil {
		return fault.Wrap(err, fault.NotFound, "There is no such image.")
	}
	f.count(r, k)
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Type", "image/gif")
	header.Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write([]byte(pixel))
	return nil
}

const (
	// countsPerSecond and countsAtOnce limit what is counted in all, so that visits do not take the database from
	// deliveries. More visitors are served, and not counted.
	countsPerSecond = 500
	countsAtOnce    = 5000
)

// countTime limits how long a recipient waits for what counts their visit.
const countTime = 2 * time.Second

// count counts a visit, if the recipient allows it now. Its failure is not the visitor's.
func (f *handlers) count(r *http.Request, k tracking.Mark) {
	if !countable(r) || !f.counting.Allow() {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), countTime)
	defer cancel()
	if err := f.react(ctx, k); err != nil && r.Context().Err() == nil {
		f.Log.WarnContext(r.Context(), "an open or a click was not counted", "error", err)
	}
}

// countable reports whether a request may be counted: its sender does not object (Global Privacy Control, Do Not
// Track), and it is not a prefetch.
func countable(r *http.Request) bool {
	h := r.Header
	return r.Method == http.MethodGet && h.Get("Sec-GPC") != "1" && h.Get("DNT") != "1" && h.Get("Sec-Purpose") == "" &&
		h.Get("Purpose") == "" && h.Get("X-Purpose") == "" && h.Get("X-Moz") == ""
}

// react counts a reaction if the recipient's consent holds, which may have been taken back since the mail was sent.
func (f *handlers) react(ctx context.Context, k tracking.Mark) error {
	m, _, err := f.Store.Message(ctx, k.Number)
	if err != nil {
		return notFoundIsNothing(err)
	}
	send, err := f.Store.Send(ctx, notify.SendOf(k.Number))
	if err != nil {
		return notFoundIsNothing(err)
	}
	part := notify.TrackOpens
	if k.Type == notify.Clicked {
		part = notify.TrackClicks
	}
	this := notify.Subscription{UserID: m.UserID, KindRef: send.Preferred()}
	if this.UserID == "" {
		this.UserID = notify.AddressSubscriber(m.Email)
	}
	if send.Critical || !send.Tracking.Has(part) || this.UserID == "" {
		return nil
	}
	choices, err := f.Store.Unsubscribed(ctx, []notify.Subscription{this})
	if err != nil {
		return err
	}
	if c := choices[this]; !c.Tracking || c.Unwanted.Has(notify.Email) {
		return nil
	}
	return f.Store.React(ctx, notify.Reaction{Number: k.Number, Type: k.Type, Last: time.Now()}, notify.FigureSeries{
		ClientID: send.ClientID, KindID: this.KindID, Channel: notify.Email, TemplateID: k.TemplateID,
		TemplateVersion: k.Version, Domain: notify.DomainOf(m.Email)})
}

// notFoundIsNothing drops the error of a message that is not kept any more.
func notFoundIsNothing(err error) error {
	if errors.Is(err, notify.ErrNotFound) {
		return nil
	}
	return err
}

const (
	// visitsPerSecond and visitsAtOnce limit the requests from an address. Mail programs load images through proxies,
	// which many recipients share.
	visitsPerSecond = 50
	visitsAtOnce    = 500
	// manyVisitors is at how many addresses all are forgotten.
	manyVisitors = 10_000
)

// visitors limits the requests of each address; it implements web.Limiter.
type visitors struct {
	address func(*http.Request) netip.Addr

	mu sync.Mutex
	of map[string]*rate.Limiter
}

// Enter implements web.Limiter.
func (v *visitors) Enter(_ http.Header, r *http.Request, _ *token.Claims) (func(), error) {
	if v.address == nil {
		return nil, nil
	}
	key := web.AddressKey(v.address(r))
	v.mu.Lock()
	defer v.mu.Unlock()
	l := v.of[key]
	if l == nil {
		if len(v.of) >= manyVisitors {
			clear(v.of)
		}
		l = rate.NewLimiter(visitsPerSecond, visitsAtOnce)
		v.of[key] = l
	}
	if !l.Allow() {
		return nil, fault.New(fault.RateLimited, "Too many requests from this address. Try again in a few seconds.").
			After(5 * time.Second)
	}
	return nil, nil
}
