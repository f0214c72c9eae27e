package platform

import "context"

// Changes is what a transaction tells others about itself with Tx.Announce. It
// names what to look at again; the rows are in the store.
type Changes struct {
	// Lines are written to the logs of apps.
	Lines []LogLine
	// Routes are the guids of routes whose entry in the route table follows from
	// what was written: the route, its destinations or its route service.
	Routes []string
	// Names means that apps, spaces or organizations have other names, or an app
	// another list of processes.
	Names bool
	// Rules means that other rules apply to the connections of instances: security
	// groups or network policies changed.
	Rules bool
}

// Add adds more changes.
func (c *Changes) Add(more Changes) {
	c.Lines = append(c.Lines, more.Lines...)
	c.Routes = append(c.Routes, more.Routes...)
	c.Names = c.Names || more.Names
	c.Rules = c.Rules || more.Rules
}

// Sink receives the changes that transactions of a store announce.
type Sink interface {
	// Changed is called after a transaction has committed, before Update returns
	// to its caller, with what the transaction announced. A transaction that was
	// rolled back announces nothing. When the commit itself fails, whether it
	// happened may be unknown: then Changed gets Routes, Names and Rules, which
	// only ask to look again, and no Lines.
	Changed(ctx context.Context, c Changes)
}
