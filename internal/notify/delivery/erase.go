package delivery

import "context"

// eraseOften is not part of the upkeep: erasures may take long, and purging must not wait for them.
func (d *Delivery) eraseOften(ctx context.Context) {
	for {
		d.erase(ctx)
		if !wait(ctx, measure) {
			return
		}
	}
}

// erase continues erasures of persons' data that are not finished: messages were being delivered, or the server that
// had begun was killed. Other servers may do the same at the same time.
func (d *Delivery) erase(ctx context.Context) {
	if d.o.Lead != nil && !d.o.Lead(ctx) {
		return
	}
	left, err := d.o.Store.ContinueErasures(ctx)
	switch {
	case err != nil && ctx.Err() == nil:
		d.o.Log.Error("erase the data of recipients failed, retrying", "error", err)
	case left > 0:
		d.o.Log.Debug("erasures wait for messages that are being delivered", "erasures", left)
	}
}
