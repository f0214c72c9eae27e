package system

import (
	"context"
	"sync/atomic"

	"ingot/internal/base/background"
	"ingot/internal/server/steps"
)

// server is what System and Standalone have in common: their lifecycle, the steps
// to undo, and their addresses.
type server struct {
	part      background.Part
	steps     steps.Stack
	endpoints atomic.Pointer[Endpoints]
	built     atomic.Pointer[frontend]
}

// begin runs start, and undoes its steps if it fails.
func (s *server) begin(ctx context.Context, start func(context.Context) error) error {
	return s.part.Launch(ctx, func(context.Context, func(func())) error {
		err := start(ctx)
		if err != nil {
			s.steps.Unwind()
		}
		return err
	})
}

// Stop waits for requests to finish, stops every part, and releases the data
// directory.
func (s *server) Stop() { s.part.HaltGently(s.steps.Unwind) }

// Endpoints returns the addresses of the server; zero before the ports are open.
func (s *server) Endpoints() Endpoints {
	if e := s.endpoints.Load(); e != nil {
		return *e
	}
	return Endpoints{}
}

func stopTogether(parts ...background.Service) {
	var all background.WaitGroup
	for _, p := range parts {
		all.Go("stop", p.Stop)
	}
	all.Wait()
}
