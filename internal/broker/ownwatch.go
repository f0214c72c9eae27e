package broker

import (
	"cmp"
	"context"
	"errors"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/clock"
	"ingot/internal/base/daemon"
	"ingot/internal/base/loopdisk"
	"ingot/internal/broker/ownserver"
)

const (
	ownWatch = time.Second
	// askClients limits the questions of the watcher.
	askClients = 5 * time.Second
	// growth is how much a server may write before the size of its data is checked.
	growth = 16 * mib
	// cutPause is how long a server with a full disk is left alone.
	cutPause = 5 * time.Minute
	// diskSlack is what a server needs to start.
	diskSlack = 4 * mib
)

// watch stops idle servers, says when the kernel has killed a process of one, and limits what they
// write, until ctx is done.
func (o *ownServers) watch(ctx context.Context, checkSize func(ctx context.Context, id string) error) {
	for range background.Ticks(ctx, min(ownWatch, o.idle), nil) {
		for _, s := range o.list() {
			background.Safely("database server", func() { o.look(ctx, s, checkSize) })
		}
	}
}

// list returns the servers that are open.
func (o *ownServers) list() (all []*ownServer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.running {
		if s.closing == nil && s.ready() {
			all = append(all, s)
		}
	}
	return all
}

func (o *ownServers) look(ctx context.Context, s *ownServer, checkSize func(ctx context.Context, id string) error) {
	if s.group != nil {
		if kills := s.group.OOMKills(); kills > s.kills {
			s.kills = kills
			o.log.Warn("a database server needed more memory than its plan has: the kernel ended a process of it, and it "+
				"recovers",
				"instance", s.instance.ID, "service", s.instance.Offering, "limit", sizeText(planOf(s.instance).memory))
		}
	}
	s.db.server().TrimLog()
	if o.isIdle(s) {
		o.rest(ctx, s)
		return
	}
	used, err := ownserver.Used(o.dirOf(s.instance))
	if err != nil {
		return // it is being stopped
	}
	if o.limitDisk(ctx, s, used) {
		return
	}
	s.checked = cmp.Or(s.checked, used)
	if used-s.checked > growth || s.checked-used > growth {
		s.checked = used
		if err := checkSize(ctx, s.instance.ID); err != nil && ctx.Err() == nil {
			o.log.Warn("measure service instance failed", "instance", s.instance.ID, "error", err)
		}
	}
}

// limitDisk ends the connections of a server that has used its disk, or what a disk would hold if it
// had one: their statements are undone, and temporary files deleted. It reports whether the server was
// stopped.
func (o *ownServers) limitDisk(ctx context.Context, s *ownServer, used int64) (stopped bool) {
	point, limit := o.dirOf(s.instance), o.disk(s.instance)
	say := func(what string, err error) {
		o.log.Warn(what, "instance", s.instance.ID, "service", s.instance.Offering, "used", sizeText(used), "limit",
			sizeText(limit), "error", err)
	}
	up := s.db.server().Up()
	if !loopdisk.Mounted(point) {
		if used > limit && up {
			ask, cancel := context.WithTimeout(ctx, askClients)
			defer cancel()
			say("a database server wrote more than its plan has: its connections were closed", s.db.disconnect(ask))
		}
		return false
	}
	free, err := loopdisk.Free(point)
	switch owner := o.ownerOf(s.instance); {
	case err != nil || free > limit/32:
		return false
	case up && o.mayCut(s.instance):
		o.closeOnce(s, false)
		say("a database server has used its disk: its connections were closed, and it starts again with the next", nil)
		return true
	case !up && free < diskSlack && !s.reserve && owner != nil:
		s.reserve = true
		say("a database server cannot start on its full disk, and gets the reserve", loopdisk.GiveReserve(point, owner.Uid))
	}
	return false
}

// mayCut reports whether a server may be stopped because of its disk: not again at once, so that
// data can be deleted.
func (o *ownServers) mayCut(i *instance) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := clock.Steady()
	if last, ok := o.cut[i.ID]; ok && now.Sub(last) < cutPause {
		return false
	}
	o.cut[i.ID] = now
	return true
}

func (o *ownServers) isIdle(s *ownServer) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return s.users == 0 && s.closing == nil && clock.Steady().Sub(s.since) >= o.idle
}

// isNew reports whether a server that does not answer may be about to: it was just started, or
// is taken over from another process.
func (o *ownServers) isNew(s *ownServer) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return clock.Steady().Sub(s.since) < o.idle+daemon.StartTime
}

// rest stops an idle server. Another process may have connections to it, before it has handed all
// of them over.
func (o *ownServers) rest(ctx context.Context, s *ownServer) {
	switch {
	case s.db.server().Up():
		ask, cancel := context.WithTimeout(ctx, askClients)
		n, err := s.db.clients(ask)
		cancel()
		if err != nil || n > 0 { // one that does not answer may be busy
			o.mu.Lock()
			s.since = clock.Steady()
			o.mu.Unlock()
			return
		}
	case o.isNew(s):
		return // it may be another process's, and have connections
	}
	o.mu.Lock()
	if s.users > 0 || s.closing != nil || o.stopped {
		o.mu.Unlock()
		return
	}
	s.closing = make(chan struct{})
	o.mu.Unlock()
	o.close(s, false)
	o.log.Debug("an idle database server was stopped", "instance", s.instance.ID, "service", s.instance.Offering)
}

// full reports whether a server without its own disk has written too much.
func (o *ownServers) full(i *instance) error {
	if loopdisk.Mounted(o.dirOf(i)) {
		return nil
	}
	if used, err := ownserver.Used(o.dirOf(i)); err == nil && used > o.disk(i) {
		return errFull
	}
	return nil
}

var errFull = errors.New("the database has used all of its disk; a larger plan makes it available again")
