package notify

import (
	"context"
	"strings"
	"time"
)

// Figures count messages. A message is accepted when it gets its first result: it was attempted, or became final
// without an attempt. Retried counts attempts that failed and are repeated; the others count messages that became
// final. So accepted is the sum of the final ones and of those that wait for another attempt. A message that is
// replayed counts again. Opened and Clicked count messages whose first Reaction of a type was in this time, Opens and
// Clicks all Reactions.
type Figures struct {
	Accepted, Delivered, Failed, Undeliverable, Unsubscribed, Canceled, Skipped, Digested, Throttled, Retried int64
	Opened, Clicked, Opens, Clicks                                                                            int64
}

// Add adds other figures.
func (f *Figures) Add(g Figures) {
	f.Accepted += g.Accepted
	f.Delivered += g.Delivered
	f.Failed += g.Failed
	f.Undeliverable += g.Undeliverable
	f.Unsubscribed += g.Unsubscribed
	f.Canceled += g.Canceled
	f.Skipped += g.Skipped
	f.Digested += g.Digested
	f.Throttled += g.Throttled
	f.Retried += g.Retried
	f.Opened += g.Opened
	f.Clicked += g.Clicked
	f.Opens += g.Opens
	f.Clicks += g.Clicks
}

// Sub subtracts other figures.
func (f *Figures) Sub(g Figures) {
	f.Add(Figures{-g.Accepted, -g.Delivered, -g.Failed, -g.Undeliverable, -g.Unsubscribed, -g.Canceled, -g.Skipped,
		-g.Digested, -g.Throttled, -g.Retried, -g.Opened, -g.Clicked, -g.Opens, -g.Clicks})
}

// FiguresOf returns what an outcome counts of a message as it was before.
func FiguresOf(m *Message, o *Outcome) (f Figures) {
	final := o.Status.Final()
	if m.Attempts == 0 && (o.Attempted || final) {
		f.Accepted = 1
	}
	switch o.Status {
	case Delivered:
		f.Delivered = 1
	case Failed:
		f.Failed = 1
	case Undeliverable:
		f.Undeliverable = 1
	case Unsubscribed:
		f.Unsubscribed = 1
	case Canceled:
		f.Canceled = 1
	case Skipped:
		f.Skipped = 1
	case Digested:
		f.Digested = 1
	case Throttled:
		f.Throttled = 1
	case Retry:
		if o.Attempted {
			f.Retried = 1
		}
	}
	return f
}

// FigureSeries is what figures are counted by.
type FigureSeries struct {
	ClientID string
	// KindID is a kind or campaign type, empty for mail without one.
	KindID  string
	Channel ChannelID
	// TemplateID and TemplateVersion are what the message was rendered with; empty if it was not, or if a server was
	// killed before it stored that.
	TemplateID      string
	TemplateVersion int64
	// Domain is that of the address in mail, in lower case; empty if it is not known.
	Domain string
}

// OtherFigures is the domain, template or kind of what has no series of its own, because the client has too many.
const OtherFigures = "*"

const (
	// MaxFigureDomains limits the domains of a client that are counted separately.
	MaxFigureDomains = 100
	// MaxFigureSeries limits the series of a client; beyond it domains and templates are not told apart.
	MaxFigureSeries = 1000
	// FigureHours and FigureDays are how long figures are kept by the hour and by the day.
	FigureHours = 48
	FigureDays  = 90
)

// DomainOf returns the domain of an address in lower case, "" if it has none.
func DomainOf(address string) string {
	const longest = 253
	i := strings.LastIndexByte(address, '@')
	if i < 0 || len(address)-i-1 > longest {
		return ""
	}
	return strings.ToLower(address[i+1:])
}

// FigureDimension is by what figures are grouped.
type FigureDimension string

// The dimensions.
const (
	FiguresByKind     FigureDimension = "kind"
	FiguresByChannel  FigureDimension = "channel"
	FiguresByDomain   FigureDimension = "domain"
	FiguresByTemplate FigureDimension = "template" // and version
)

// FigureDimensions are all dimensions.
var FigureDimensions = []FigureDimension{FiguresByKind, FiguresByChannel, FiguresByDomain, FiguresByTemplate}

// FigureQuery selects figures. Nil fields match everything.
type FigureQuery struct {
	// ClientID is the client whose figures are read, unless All is set.
	ClientID string
	All      bool
	By       FigureDimension
	// Daily is whether points are days, in UTC, rather than hours. From is the beginning of the first of Points.
	Daily  bool
	From   time.Time
	Points int
	// Groups limits the groups; the largest are returned.
	Groups                     int
	KindID, Domain, TemplateID *string
	Channel                    *ChannelID
}

// FigureGroup is one group; of Series only what it is grouped by is set, with the client for kinds.
type FigureGroup struct {
	Series FigureSeries
	Points []Figures
}

// FigureReport is the answer to a FigureQuery.
type FigureReport struct {
	Total  []Figures
	Groups []FigureGroup // the largest first
	// Rest is what belongs to no group.
	Rest []Figures
}

// Statistics reads what was counted of deliveries. Finish and Cancel count, in their transactions.
type Statistics interface {
	// Figures returns the largest groups, and the rest.
	Figures(ctx context.Context, q FigureQuery) (FigureReport, error)
}

// SumFigures adds points.
func SumFigures(points []Figures) (sum Figures) {
	for _, p := range points {
		sum.Add(p)
	}
	return sum
}

// Tracking is what is counted of the mail of a kind, for recipients who consented. Stores keep it as a number.
type Tracking uint8

const (
	TrackOpens  Tracking = 1 << iota // by an image
	TrackClicks                      // by links that lead over this service
)

// Has reports whether a part is counted.
func (t Tracking) Has(part Tracking) bool { return t&part != 0 }

// ReactionType is what a recipient did.
type ReactionType int

const (
	Opened  ReactionType = 1
	Clicked ReactionType = 2
)

// Reaction is what a recipient, or a program that reads their mail, did with a message.
type Reaction struct {
	Number int64
	Type   ReactionType
	// First and Last are when, and Total is how often, up to MaxReactions.
	First, Last time.Time
	Total       int
}

// Figures returns what a reaction counts whose type the message had so often, including this one.
func (r Reaction) Figures(total int64) (f Figures) {
	first := int64(0)
	if total == 1 {
		first = 1
	}
	if r.Type == Opened {
		f.Opened, f.Opens = first, 1
	} else {
		f.Clicked, f.Clicks = first, 1
	}
	return f
}

// MaxReactions limits what is counted of each message and type: programs that follow links again and again cost no
// more.
const MaxReactions = 100

// Reactions counts opens and clicks.
type Reactions interface {
	// SetTracking sets Kind.Tracking of a kind, for later sends. ErrNotFound when the kind is missing.
	SetTracking(ctx context.Context, ref KindRef, t Tracking) error
	// React counts a reaction at its Last, for a message and in the figures of a series, in one transaction. Messages that
	// were purged, or whose recipients were erased, and further ones than MaxReactions count nothing.
	React(ctx context.Context, r Reaction, of FigureSeries) error
}
