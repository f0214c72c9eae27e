package main

import (
	"context"
	"errors"

	"ingot/internal/base/background"
	"ingot/internal/broker/check"
)

// brokerOptions are the commands about service brokers.
type brokerOptions struct {
	Check brokerCheckOptions `command:"check" description:"Check whether a service broker conforms to the Open Service Broker API" long-description:"Makes instances and bindings of one plan of each offering, removes them again, and reports what is not as the Open Service Broker API, version 2.17, has it. Leaves with 1 if something is not."`
}

// brokerCheckOptions are the flags of 'ingot broker check'.
type brokerCheckOptions struct {
	Username string `long:"username" env:"INGOT_BROKER_USERNAME" value-name:"NAME" description:"The user name that the broker expects"`
	Password string `long:"password" env:"INGOT_BROKER_PASSWORD" value-name:"PASSWORD" default-mask:"-" description:"Its password; the variable keeps it out of the list of processes"`
	Service  string `long:"service" value-name:"NAME" description:"Try this offering only"`
	Plan     string `long:"plan" value-name:"NAME" description:"Try this plan; without it, a free one of each offering"`
	JSON     bool   `long:"json" description:"Write the report as JSON"`
	Args     struct {
		URL string `positional-arg-name:"URL" description:"Where the broker is, without /v2"`
	} `positional-args:"yes" required:"yes"`
}

// errNotConforming needs no words: the report has them.
var errNotConforming = errors.New("the broker does not conform")

// checkBroker checks a broker and prints the report.
func (p *process) checkBroker(o brokerCheckOptions) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan struct{})
	defer close(done)
	background.Go("signals", func() {
		select {
		case <-p.signals:
			cancel()
		case <-done:
		}
	})
	report, err := check.Run(ctx, check.Options{
		URL: o.Args.URL, Username: o.Username, Password: o.Password, Service: o.Service, Plan: o.Plan,
	})
	if err != nil {
		return err
	}
	if o.JSON {
		err = report.WriteJSON(p.out)
	} else {
		report.Write(p.out)
	}
	if err == nil && !report.OK() {
		return errNotConforming
	}
	return err
}
