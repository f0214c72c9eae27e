package enginetest

import (
	"context"
	"io"
	"net"

	"ingot/internal/base/faulttest"
	"ingot/internal/platform/engine"
)

// Faulty returns e with faults.
func Faulty(e engine.Engine, f *faulttest.Faults) engine.Engine { return faultyEngine{e, f} }

type faultyEngine struct {
	engine.Engine
	*faulttest.Faults
}

func (e faultyEngine) Start(ctx context.Context, s engine.Spec) error {
	if err := e.Inject(ctx, "engine start"); err != nil {
		return err
	}
	return e.Engine.Start(ctx, s)
}

func (e faultyEngine) Signal(ctx context.Context, id string) error {
	if err := e.Inject(ctx, "engine signal"); err != nil {
		return err
	}
	return e.Engine.Signal(ctx, id)
}

func (e faultyEngine) Remove(ctx context.Context, id string) error {
	if err := e.Inject(ctx, "engine remove"); err != nil {
		return err
	}
	return e.Engine.Remove(ctx, id)
}

func (e faultyEngine) List(ctx context.Context, wanted engine.Wanted) ([]engine.Instance, error) {
	if err := e.Inject(ctx, "engine list"); err != nil {
		return nil, err
	}
	return e.Engine.List(ctx, wanted)
}

func (e faultyEngine) Get(ctx context.Context, id string) (engine.Instance, error) {
	if err := e.Inject(ctx, "engine get"); err != nil {
		return engine.Instance{}, err
	}
	return e.Engine.Get(ctx, id)
}

func (e faultyEngine) Usage(ctx context.Context, id string) (engine.Usage, error) {
	if err := e.Inject(ctx, "engine usage"); err != nil {
		return engine.Usage{}, err
	}
	return e.Engine.Usage(ctx, id)
}

func (e faultyEngine) Records(ctx context.Context, id string, after engine.Position) (engine.Stream, error) {
	if err := e.Inject(ctx, "engine records"); err != nil {
		return nil, err
	}
	return e.Engine.Records(ctx, id, after)
}

func (e faultyEngine) Exec(ctx context.Context, id string, r engine.ExecRequest) (engine.Process, error) {
	if err := e.Inject(ctx, "engine exec"); err != nil {
		return nil, err
	}
	return e.Engine.Exec(ctx, id, r)
}

func (e faultyEngine) Dial(ctx context.Context, id, network, address string) (net.Conn, error) {
	if err := e.Inject(ctx, "engine dial"); err != nil {
		return nil, err
	}
	return e.Engine.Dial(ctx, id, network, address)
}

func (e faultyEngine) Collect(ctx context.Context, id, path string, w io.Writer) error {
	if err := e.Inject(ctx, "engine collect"); err != nil {
		return err
	}
	return e.Engine.Collect(ctx, id, path, w)
}
