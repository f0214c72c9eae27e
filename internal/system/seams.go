package system

import (
	"net/http"

	"ingot/internal/notify/delivery"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/kubernetes"
	"ingot/internal/server/cluster"
)

// seams are functions with which tests inject faults between the parts. A nil
// function changes nothing.
type seams struct {
	engine   func(engine.Engine) engine.Engine
	delivery func(*delivery.Options)
	broker   func(http.RoundTripper) http.RoundTripper
	cluster  func(*cluster.Options)
	// kubernetes is for clusters whose Pods are processes.
	kubernetes func(*kubernetes.Options)
	diagnosis  func(*kubernetes.Diagnosis)
	// runtime sees the parts of a server.
	runtime func(*runtime)
}

// engineFor returns an engine whose calls always return.
func (s seams) engineFor(e engine.Engine) engine.Engine {
	if s.engine != nil {
		return s.engine(e)
	}
	return engine.Watched(e, 0, 0)
}

func (s seams) clusterWith(o cluster.Options) cluster.Options {
	if s.cluster != nil {
		s.cluster(&o)
	}
	return o
}

func (s seams) deliveryWith(o delivery.Options) delivery.Options {
	if s.delivery != nil {
		s.delivery(&o)
	}
	return o
}
