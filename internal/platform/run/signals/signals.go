package signals

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/tracing"
	"ingot/internal/platform"
	"ingot/internal/platform/edge/router/accesslog"
	"ingot/internal/platform/logs/appinfo"
	"ingot/internal/platform/logs/drain"
	"ingot/internal/platform/run/controller"
	"ingot/internal/platform/run/controller/routing"
	"ingot/internal/platform/run/netrules"
	"ingot/internal/platform/run/staging"
	"ingot/internal/platform/services"
)

// What servers tell each other. Some words are followed by a space and a guid.
const (
	toldApp      = "app"      // an app changed, or what it is bound to
	toldBindings = "bindings" // bindings changed
	toldRoute    = "route"
	toldNames    = "names"
	toldBuild    = "build"
	toldTasks    = "tasks"
	toldRules    = "rules"    // security groups or network policies changed
	toldBackends = "backends" // rows of an app's instances changed
	toldDrain    = "drain"    // an instance stops when its requests have finished
)

// Bus reaches the other servers.
type Bus interface {
	// Tell sends items to the other servers. It never blocks.
	Tell(items ...string)
	// Ask is Tell; await waits until they have done what they were told.
	Ask(items ...string) (await func(context.Context) bool)
}

// Signals are the parts that have to know of changes. It implements platform.Sink.
type Signals struct {
	Bus       Bus
	Apps      *controller.Controller
	Tasks     *controller.Tasks
	Builds    *staging.Builds
	Services  *services.Services
	Drains    *drain.Manager
	Publisher *routing.Publisher
	Rules     *netrules.Keeper // nil if the engine does not enforce rules
	Info      *appinfo.Info
	Lines     accesslog.Lines
	// Busy reports whether requests to an instance are in progress.
	Busy func(instanceGUID string) bool
	Log  *slog.Logger
}

// routesFor is how long an answer of the API waits until the other servers use a
// changed route.
const routesFor = 250 * time.Millisecond

// items returns the words for a number of guids.
func items(word string, guids []string) []string {
	all := make([]string, len(guids))
	for i, guid := range guids {
		all[i] = word + " " + guid
	}
	return all
}

func (s *Signals) appsChanged(guids ...string) {
	s.Apps.Kick(guids...)
	s.Tasks.Kick()  // tasks of a deleted app are canceled
	s.Drains.Kick() // a binding may have been created or deleted
}

// Changed implements platform.Sink. When it returns, and with it the Update that
// announced c, the router uses the new routes, and normally those of the other
// servers do too.
func (s *Signals) Changed(ctx context.Context, c platform.Changes) {
	if c.Names { // first, because the lines are shown with names
		s.namesChanged()
		s.Bus.Tell(toldNames)
	}
	if c.Rules {
		s.Bus.Tell(toldRules)
		s.applyRules(ctx)
	}
	if len(c.Routes) > 0 {
		await := s.Bus.Ask(items(toldRoute, c.Routes)...)
		_ = s.Publisher.Announce(c.Routes...) // it logs a failure and tries again
		limited, cancel := context.WithTimeout(ctx, routesFor)
		defer cancel()
		await(limited)
	}
	if err := s.Lines.Tell(c.Lines...); err != nil {
		s.Log.WarnContext(ctx, "lines could not be written to the log of an app", "error", err)
	}
	s.wake(c, tracing.OriginOf(ctx))
}

// wake wakes the parts that bring the actual state to the desired one, here and on the other
// servers. They also look by themselves from time to time.
func (s *Signals) wake(c platform.Changes, by tracing.Origin) {
	if len(c.Apps) > 0 || c.Bindings {
		s.appsChanged(c.Apps...)
		s.Bus.Tell(append(items(toldApp, c.Apps), toldBindings)...)
	}
	for _, guid := range c.Builds {
		s.Builds.Requested(guid, by)
		s.Bus.Tell(strings.TrimRight(toldBuild+" "+guid+" "+by.Request+" "+by.Trace, " "))
	}
	if c.Tasks {
		s.Tasks.Kick()
		s.Bus.Tell(toldTasks)
	}
}

// applyRules makes the engine use changed security groups and network policies.
func (s *Signals) applyRules(ctx context.Context) {
	if s.Rules == nil {
		return
	}
	if err := s.Rules.Apply(ctx); err != nil {
		s.Log.ErrorContext(ctx, "changed security groups or network policies could not be applied; this is tried again",
			"error", err)
		s.Rules.Kick()
	}
}

func (s *Signals) kickRules() {
	if s.Rules != nil {
		s.Rules.Kick()
	}
}

func (s *Signals) namesChanged() {
	s.Info.Forget()
	s.Drains.Kick()
}

// Peers implements controller.Peers.
type Peers struct{ Bus }

// BackendsChanged implements controller.Peers.
func (p Peers) BackendsChanged(appGUID string) func(context.Context) bool {
	return p.Ask(toldBackends + " " + appGUID)
}

// Drain implements controller.Peers.
func (p Peers) Drain(ctx context.Context, instanceGUID string) {
	p.Ask(toldDrain + " " + instanceGUID)(ctx)
}

// Received does what other servers told.
func (s *Signals) Received(told []string, done func()) {
	var routes, apps, backends []string
	var later []func(context.Context)
	for _, item := range told {
		word, guid, _ := strings.Cut(item, " ")
		switch word {
		case toldApp:
			apps = append(apps, guid)
		case toldRoute:
			routes = append(routes, guid)
		case toldNames:
			s.namesChanged()
		case toldBuild:
			build, by, _ := strings.Cut(guid, " ")
			request, trace, _ := strings.Cut(by, " ")
			s.Builds.Requested(build, tracing.Origin{Request: request, Trace: trace})
		case toldTasks:
			s.Tasks.Kick()
		case toldRules:
			s.kickRules()
		case toldBackends:
			backends = append(backends, guid)
		case toldDrain:
			later = append(later, func(ctx context.Context) { s.drained(ctx, guid) })
		}
	}
	if len(apps) > 0 || slices.Contains(told, toldBindings) {
		s.appsChanged(apps...)
	}
	if len(backends) > 0 {
		later = append(later, func(ctx context.Context) {
			if err := s.Apps.LoadBackends(ctx, backends...); err != nil {
				s.Log.Warn("the instances of another server could not be read; this is tried again", "error", err)
				s.Apps.KickAll()
			}
		})
	}
	if len(routes) > 0 {
		// it logs a failure and tries again
		later = append(later, func(context.Context) { _ = s.Publisher.Announce(routes...) })
	}
	if len(later) == 0 {
		done()
		return
	}
	background.Go("message of another server", func() {
		ctx, cancel := context.WithTimeout(context.Background(), receivedFor)
		defer cancel()
		var all background.WaitGroup
		for _, f := range later {
			all.Go("message of another server", func() { f(ctx) })
		}
		all.Wait()
		done()
	})
}

const (
	// receivedFor limits the work on one message.
	receivedFor = 15 * time.Second
	// drainPoll is how often it is checked whether the requests to an instance have
	// finished.
	drainPoll = 20 * time.Millisecond
)

// drained returns when no requests to an instance are in progress.
func (s *Signals) drained(ctx context.Context, instanceGUID string) {
	for s.Busy(instanceGUID) && background.Sleep(ctx, drainPoll) {
	}
}

// Resync looks at everything, because messages were lost.
func (s *Signals) Resync() {
	s.namesChanged()
	s.Apps.KickAll()
	s.Tasks.Kick()
	s.Builds.Kick()
	s.Services.Kick()
	s.Publisher.Kick()
	s.kickRules()
}

// sharded is a part that works on the apps of this server's shards only.
type sharded interface {
	Gained(shards uint64)
	Lost(shards uint64)
}

func (s *Signals) sharded() []sharded { return []sharded{s.Apps, s.Tasks, s.Builds, s.Drains} }

// Gained means that this server works on these shards now.
func (s *Signals) Gained(shards uint64) {
	for _, part := range s.sharded() {
		part.Gained(shards)
	}
}

// Lost means that it does not any more. It returns when no part does.
func (s *Signals) Lost(shards uint64) {
	var all background.WaitGroup
	for _, part := range s.sharded() {
		all.Go("release shards", func() { part.Lost(shards) })
	}
	all.Wait()
}
