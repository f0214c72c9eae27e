package system

import (
	"net/http"

	"ingot/internal/notify/delivery"
	"ingot/internal/platform/engine"
)

// seams are where tests put faults between the parts. Functions that are nil
// change nothing.
type seams struct {
	engine   func(engine.Engine) engine.Engine
	delivery func(*delivery.Options)
	broker   func(http.RoundTripper) http.RoundTripper
}

// engineFor returns the engine for those who call it for users: every call comes
// back.
func (s seams) engineFor(e engine.Engine) engine.Engine {
	if s.engine != nil {
		return s.engine(e)
	}
	return engine.Watched(e, 0, 0)
}

func (s seams) deliveryWith(o delivery.Options) delivery.Options {
	if s.delivery != nil {
		s.delivery(&o)
	}
	return o
}
