package actions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/mail"
	"strings"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/notify"
)

// Options configure New.
type Options struct {
	Store     notify.Store
	Directory notify.Directory
	// Rights decides about occurrences of recurring sends, for which there is no token; nil allows all.
	Rights notify.Rights
	IDs    *notify.IDs
	Limits Limits
	Log    *slog.Logger
	// Kick tells the delivery that there is work to do.
	Kick func()
	// Servers returns how many servers share the limits of clients; nil means one.
	Servers func() int
}

// Service accepts sends.
type Service struct {
	o         Options
	quotas    *quotas
	broadcast broadcast
	uploads   uploads
}

// New returns a Service. It runs nothing itself: package delivery processes the
// accepted sends.
func New(o Options) *Service {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Servers == nil {
		o.Servers = func() int { return 1 }
	}
	if o.Kick == nil {
		o.Kick = func() {}
	}
	o.Limits = o.Limits.withDefaults()
	return &Service{o: o, quotas: newQuotas(o.Limits, o.Servers)}
}

const (
	// atOnce is the maximum number of recipients that are stored in one
	// transaction before the response.
	atOnce = 1000

	maxAudiences   = 10_000
	maxSubject     = 2000
	maxAudienceID  = 1000
	maxIdempotency = 255
	keysKept       = 24 * time.Hour
	// whenFull is how long a caller should wait while the queue is full.
	whenFull = 30 * time.Second

	noSubject = "[no subject]"
)

// IDs returns the public ids of messages and sends.
func (s *Service) IDs() *notify.IDs { return s.o.IDs }

// RateLimit returns the remaining quota of the client.
func (s *Service) RateLimit(client string) RateLimit { return s.quotas.state(client, time.Now()) }

// Send checks a request (the kind is registered, the client may send it, the
// audience exists, the client's limits are not exceeded) and accepts it: from
// then on its messages are processed even if the process crashes.
func (s *Service) Send(ctx context.Context, r Request) (Receipt, error) {
	now := time.Now()
	if err := s.quotas.request(r.Client, now); err != nil {
		return Receipt{}, err
	}
	if err := s.check(r, now); err != nil {
		return Receipt{}, err
	}
	if r.Occurrence != nil {
		if err := s.stillMay(ctx, &r); err != nil {
			return Receipt{}, err
		}
	}
	if r.IdempotencyKey != "" && r.Members == nil {
		// A repeated request gets the same response, even if the kind or the
		// audience has changed since.
		earlier, repeated, err := s.o.Store.Repeated(ctx, r.Client, notify.Idempotency{Key: r.IdempotencyKey, Hash: r.Hash,
			Until: now})
		if err != nil {
			return Receipt{}, s.refusal(err, r)
		}
		if repeated {
			return Receipt{Send: earlier, Replayed: true}, nil
		}
	}
	n := notify.NewSend{Send: notify.Send{
		ClientID:   r.Client,
		TemplateID: r.Template,
		Audiences:  append([]notify.Audience(nil), r.Audiences...),
		Content:    r.Content,
		Data:       r.Data,
		Locale:     r.Locale,
		RequestID:  r.RequestID,
		Trace:      r.Trace,
		Received:   now,
		ExpiresAt:  r.ExpiresAt,

		Attachments: r.Attachments,
	}}
	if r.SendAt.After(now) {
		n.SendAt = r.SendAt
	}
	n.Occurrence = r.Occurrence
	if strings.TrimSpace(n.Content.Subject) == "" {
		n.Content.Subject = noSubject
	}
	if err := s.describe(ctx, r, &n.Send); err != nil {
		return Receipt{}, err
	}
	if r.Members != nil {
		return s.sendList(ctx, r, n, now)
	}
	if r.WithData {
		check, err := s.dataCheck(ctx, notify.KindRef{ClientID: r.Client, KindID: r.KindID}, r.Data)
		if err == nil {
			err = check.all()
		}
		if err != nil {
			return Receipt{}, err
		}
	}
	return s.accept(ctx, r, n, now)
}

// accept reads the first recipients of a send and stores it. Those of a scheduled one are read
// when it is due, so that they are the members of that time.
func (s *Service) accept(ctx context.Context, r Request, n notify.NewSend, now time.Time) (Receipt, error) {
	if r.IdempotencyKey != "" {
		n.Idempotency = notify.Idempotency{Key: r.IdempotencyKey, Hash: r.Hash, Until: now.Add(keysKept)}
	}
	if err := s.read(ctx, r, &n); err != nil {
		return Receipt{}, err
	}
	known := len(n.Recipients)
	if !n.SendAt.IsZero() && n.Planned <= notify.SingleLimit { // a longer list counts when it is read
		known += n.Planned
	}
	if err := s.quota(n, known, now); err != nil {
		return Receipt{}, err
	}
	accepted, replayed, err := s.o.Store.Accept(ctx, n)
	if err != nil {
		s.quotas.giveBack(r.Client, known, now)
		return Receipt{}, s.refusal(err, r)
	}
	if replayed {
		s.quotas.giveBack(r.Client, known, now)
	} else {
		s.o.Kick()
	}
	return Receipt{Send: accepted, Replayed: replayed}, nil
}

// check validates the parts of a request that need no store.
func (s *Service) check(r Request, now time.Time) error {
	problems := checkTimes(r, now)
	bad := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	for _, f := range []struct{ name, value string }{{"subject", r.Content.Subject}, {"reply_to", r.Content.ReplyTo}} {
		if strings.ContainsAny(f.value, "\r\n\x00") {
			bad("%q must be a single line: it becomes a header of the mail", f.name)
		}
		if len(f.value) > maxSubject {
			bad("%q is %d bytes long, at most %d are allowed", f.name, len(f.value), maxSubject)
		}
	}
	if r.Content.ReplyTo != "" {
		a, err := mail.ParseAddress(r.Content.ReplyTo)
		if err != nil || !notify.UsableAddress(a.Address) {
			bad(`"reply_to" is not an email address: give one as name@example.com or Name <name@example.com>`)
		}
	}
	for _, f := range []struct{ name, value string }{{"text", r.Content.Text}, {"html", r.Content.HTML}} {
		if s.o.Limits.Bytes >= 0 && len(f.value) > s.o.Limits.Bytes {
			bad("%q is %d bytes long, at most %d are allowed", f.name, len(f.value), s.o.Limits.Bytes)
		}
	}
	if why := notify.CheckData(r.Data, notify.MaxData); why != "" {
		bad(`"data" %s`, why)
	}
	problems = append(problems, r.Content.Event.Check()...)
	if why := notify.CheckThread(r.Content.Thread); why != "" {
		bad(`"thread" %s`, why)
	}
	if why := notify.CheckLocale(r.Locale); why != "" {
		bad(`"locale" %s`, why)
	}
	if len(r.Audiences) > maxAudiences {
		bad("the request has %d audiences, at most %d are allowed: send to a space, an organization or a scope instead",
			len(r.Audiences), maxAudiences)
	}
	for _, a := range r.Audiences {
		switch {
		case len(a.ID) > maxAudienceID:
			bad("the id of a %s is %d bytes long, at most %d are allowed", a.Type, len(a.ID), maxAudienceID)
		case a.Type == notify.ToEmail && !notify.UsableAddress(a.ID):
			bad("%q is not a valid email address", a.ID)
		}
	}
	if len(r.IdempotencyKey) > maxIdempotency {
		bad("the Idempotency-Key is %d bytes long, at most %d are allowed", len(r.IdempotencyKey), maxIdempotency)
	}
	return fault.Invalid(problems...)
}

// describe sets the kind of notification and checks that the client may send
// it.
func (s *Service) describe(ctx context.Context, r Request, n *notify.Send) error {
	if c := r.Campaign; c != nil {
		if c.Critical && !r.MayCritical {
			e := fault.New(fault.Forbidden, "Scope %s is required", scopeCritical)
			e.Need = []string{scopeCritical}
			return e
		}
		n.SenderID, n.CampaignTypeID, n.Critical = c.SenderID, c.ID, c.Critical
		n.SourceDescription, n.Channels = r.Client, c.Channels
		return nil
	}
	client, kind, err := s.o.Store.Registration(ctx, notify.KindRef{ClientID: r.Client, KindID: r.KindID})
	if err != nil {
		return fmt.Errorf("look up the client and the kind of a send: %w", err)
	}
	n.SourceDescription = cmp.Or(client.Description, r.Client)
	if r.KindID == "" {
		for _, a := range r.Audiences {
			if a.Type != notify.ToEmail {
				return fault.New(fault.Unprocessable, `"kind_id" is a required field`)
			}
		}
		return nil
	}
	if kind.ID == "" {
		return fault.New(fault.Unprocessable,
			"The kind %q is not registered for the client %q, so nothing was sent: register it with PUT /notifications first",
			r.KindID, r.Client)
	}
	if kind.Critical && !r.MayCritical && r.Occurrence != nil {
		return fault.New(fault.Unprocessable, "The kind %q is critical, and the client %q does not have the scope %s, or "+
			"did not have it when this was set, so nothing was sent: grant it and set the recurring send again", r.KindID,
			r.Client, scopeCritical)
	}
	if kind.Critical && !r.MayCritical {
		return fault.New(fault.Unprocessable, "Insufficient privileges to send notification %s", r.KindID)
	}
	n.KindID, n.Critical, n.KindDescription = kind.ID, kind.Critical, cmp.Or(kind.Description, kind.ID)
	n.Channels, n.Workflow = kind.Travels(), kind.Workflow
	n.DigestRule, n.ThrottleRule, n.Kept, n.Tracking = kind.DigestRule, kind.ThrottleRule, kind.Kept, kind.Tracking
	return nil
}

// read resolves the audiences and reads their first members. Campaigns skip
// audiences that do not exist, when they are expanded, and never wait for them.
func (s *Service) read(ctx context.Context, r Request, n *notify.NewSend) error {
	campaign := r.Campaign != nil
	for i, a := range n.Audiences {
		if near(a) {
			continue
		}
		resolved, err := s.resolve(ctx, n.ClientID, a)
		switch {
		case err == nil:
			n.Audiences[i] = resolved
		case campaign && fault.Is(err, fault.NotFound):
			s.o.Log.InfoContext(ctx, "campaign audience does not exist", "client", r.Client, "type", a.Type, "id", a.ID)
		default:
			return err
		}
	}
	n.DelayedLimit = max(s.o.Limits.Delayed, 0)
	n.QuietLimit, n.PostponedLimit = s.o.Limits.waiting(), s.o.Limits.waiting()
	if !n.SendAt.IsZero() {
		n.PlannedLimit = max(s.o.Limits.Scheduled, 0)
		if len(n.Audiences) == 1 && n.List() == "" && near(n.Audiences[0]) {
			n.Planned = 1
		}
		return nil
	}
	reader := Reader{Directory: s.o.Directory, Lists: s.o.Store, Topics: s.o.Store, Client: n.ClientID, Page: atOnce,
		Near: r.Async || campaign, Lenient: campaign, Channels: n.Channels}
	var err error
	n.Recipients, n.Cursor, n.Expanded, err = reader.Read(ctx, n.Audiences, notify.Cursor{}, atOnce)
	return err
}

func (s *Service) quota(n notify.NewSend, known int, now time.Time) error {
	if err := s.quotas.recipients(n.ClientID, known, now); err != nil {
		return err
	}
	if n.Expanded || known > 0 {
		return nil
	}
	return s.quotas.open(n.ClientID, now)
}

// refusal converts an error of the store to one for the user.
func (s *Service) refusal(err error, r Request) error {
	var postponed *notify.PostponedError
	switch {
	case errors.Is(err, notify.ErrQueueFull):
		limit := ""
		if s.o.Limits.Queue > 0 {
			limit = fmt.Sprintf(": %d messages are waiting to be delivered, which is the limit", s.o.Limits.Queue)
		}
		return fault.Wrap(err, fault.Unavailable, "The queue is full%s. Nothing was sent; try again later", limit).
			After(whenFull)
	case errors.Is(err, notify.ErrScheduleFull):
		return fault.Wrap(err, fault.RateLimited,
			"The client %q may have %d messages scheduled, and not enough are left for this request: nothing was sent; try "+
				"again when some of them were sent, or cancel some", r.Client, s.o.Limits.Scheduled).After(time.Hour)
	case errors.Is(err, notify.ErrDelayedFull):
		return fault.Wrap(err, fault.RateLimited,
			"The client %q may have %d messages that workflows delay or digests collect, and not enough are left for "+
				"this request: nothing was sent; try again when some of them were sent, or cancel some",
			r.Client, s.o.Limits.Delayed).After(time.Hour)
	case errors.Is(err, notify.ErrQuietFull):
		return fault.Wrap(err, fault.RateLimited,
			"The client %q may have %d messages that wait for the end of quiet hours or in digests that users have chosen, "+
				"and has them: nothing was sent; try again when some of them were sent, or cancel some",
			r.Client, s.o.Limits.waiting()).After(time.Hour)
	case errors.As(err, &postponed):
		return fault.Wrap(err, fault.RateLimited,
			"The client %q may have %d messages that wait for another attempt, and has them, most by %s: nothing was sent; GET "+
				"/messages?status=retry says why they wait; try again when some of them were sent, cancel some, or send by other "+
				"channels", r.Client, s.o.Limits.waiting(), strings.Join(notify.ChannelsOf(postponed.By...).Names(), ", ")).
			After(time.Hour)
	case errors.Is(err, notify.ErrKeyReused):
		return fault.Wrap(err, fault.Conflict,
			"The Idempotency-Key %q was used for another request in the last 24 hours: use a new key for a new request",
			r.IdempotencyKey)
	}
	return fmt.Errorf("accept a send: %w", err)
}
