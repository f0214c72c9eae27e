package core

import (
	"context"

	"ingot/internal/base/cfapi"
)

// OnApp returns the action of a command that is about the app APP: it shows what is being done,
// and finds the app.
func OnApp[F any](
	doing string, do func(context.Context, *Session, cfapi.App, *F) (Result, error),
) Action[F] {
	return func(ctx context.Context, s *Session, w Words, f *F) (Result, error) {
		s.Doing(doing, w["APP"])
		app, err := s.App(ctx, w["APP"])
		if err != nil {
			return nil, err
		}
		return do(ctx, s, app, f)
	}
}
