package databases

import (
	"context"
	"log/slog"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/db"
)

// once is a service that runs a function once.
type once struct {
	background.Part
	work func(context.Context)
}

func (b *once) Start(ctx context.Context) error {
	return b.Run(ctx, b.work)
}

func (b *once) Stop() { b.Halt(nil) }

// resealAgain is how often a server tries to become the one that encrypts for all: the current one
// may not have the newest key yet.
const resealAgain = time.Minute

// Resealing returns the service that encrypts secrets with the newest key, on one of the servers at a time.
func Resealing(d *db.DB, columns []db.SealedColumn, lead func(context.Context) bool,
	log *slog.Logger) background.Service {
	return &once{work: func(ctx context.Context) {
		for !lead(ctx) {
			if !background.Sleep(ctx, resealAgain) {
				return
			}
		}
		n, err := d.Reseal(ctx, columns)
		switch {
		case ctx.Err() != nil: // stopped; the next start continues
		case err != nil:
			log.Error("some secrets could not be encrypted with the newest key; keep the older keys", "error", err)
		case n > 0:
			log.Info("encrypted all secrets with the newest key; older keys are no longer needed", "values", n)
		}
	}}
}
