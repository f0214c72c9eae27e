package controller

import (
	"context"
	"fmt"
	"sync"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/engine"
)

// PortReasons explains why a port of an instance refuses connections: which member declares
// it, and whether that one runs.
type PortReasons struct {
	Store platform.Store
	// Get returns an instance: the engine's Get.
	Get func(ctx context.Context, id string) (engine.Instance, error)
	// Tell writes to the log of an app.
	Tell func(lines ...platform.LogLine) error

	mu    sync.Mutex
	known map[portKey]portReason
}

type portKey struct {
	instance string
	port     int
}

type portReason struct {
	text   string
	until  time.Time // when it is looked up again
	logged time.Time
}

const (
	// reasonFor is how long an explanation is used: a route that fails may have many requests.
	reasonFor = 2 * time.Second
	// reasonTime limits one look at store and engine, because a request waits for it.
	reasonTime = time.Second
	// reasonLog is the time between two lines of the app's log about the same port.
	reasonLog = time.Minute
	// maxReasons is how many explanations are kept.
	maxReasons = 1000
)

// Explain returns why connections to a port of an instance fail, as a sentence without its
// full stop, and writes it to the app's log from time to time. It is empty if nothing is
// known.
func (r *PortReasons) Explain(app, process, instance string, index, port int) string {
	at, now := portKey{instance, port}, time.Now()
	r.mu.Lock()
	have, known := r.known[at]
	if known && now.Before(have.until) {
		r.mu.Unlock()
		return have.text
	}
	if r.known == nil || len(r.known) >= maxReasons {
		r.known = map[portKey]portReason{}
	}
	have.until = now.Add(reasonFor) // others do not look at the same time
	r.known[at] = have
	r.mu.Unlock()

	var text string
	err := background.Do("explain a port", func() (err error) {
		text, err = r.look(process, instance, port)
		return err
	})
	if err != nil {
		text = ""
	}
	have.text = text
	if text != "" && now.Sub(have.logged) >= reasonLog {
		have.logged = now
		_ = r.Tell(platform.LogLine{App: app, Time: now, Source: "RTR", Instance: "0", Stderr: true,
			Text: fmt.Appendf(nil, "Instance %d: %s", index, text)})
	}
	r.mu.Lock()
	r.known[at] = have
	r.mu.Unlock()
	return text
}

// look reads who declares a port.
func (r *PortReasons) look(process, instance string, port int) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), reasonTime)
	defer cancel()
	p := &plan{}
	err := r.Store.View(ctx, func(tx platform.Tx) (err error) {
		if p.process, err = tx.Processes().Get(process); err != nil {
			return err
		}
		if p.app, err = tx.Apps().Get(p.process.AppGUID); err != nil {
			return err
		}
		p.droplet, err = tx.Droplets().Get(p.process.DropletGUID)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		return p.ofRevision(tx)
	})
	if err != nil {
		return "", err
	}
	if owner := platform.PortOwner(p.sidecars, p.process.Type, port); owner != nil {
		return fmt.Sprintf("Port %d belongs to sidecar %s, which %s", port, owner.Name,
			r.condition(ctx, instance, memberNames(p.process.Type, p.sidecars)[owner.Name])), nil
	}
	main := platform.DefaultPort
	if p.droplet != nil {
		main = p.droplet.Container.Port()
	}
	if port == main {
		return "", nil
	}
	text := fmt.Sprintf("No process of the app listens on port %d", port)
	if declared := platform.DeclaredPorts(p.sidecars, p.process.Type); declared != "" {
		text += "; " + declared
	}
	return text, nil
}

// condition says what a member of an instance does.
func (r *PortReasons) condition(ctx context.Context, instance, member string) string {
	in, err := r.Get(ctx, instance)
	if err != nil {
		return "does not accept connections"
	}
	for _, m := range in.State.Members {
		switch {
		case m.Name != member:
		case m.Waiting:
			return "is down and waits to be started"
		case m.Exited:
			return fmt.Sprintf("is down (exit status %d)", m.Status)
		}
	}
	return "does not listen on it"
}
