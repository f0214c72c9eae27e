package main

import (
	"errors"

	"ingot/internal/broker/check"
)

// brokerOptions are the subcommands of 'ingot broker'.
type brokerOptions struct {
	Check brokerCheckOptions `command:"check" description:"Check whether a service broker conforms to the Open Service Broker API" long-description:"Creates and deletes instances and bindings of one plan of each offering, and reports deviations from the Open Service Broker API, version 2.17. The exit status is 1 if there are any."`
}

// brokerCheckOptions are the flags of 'ingot broker check'.
type brokerCheckOptions struct {
	Username string `long:"username" env:"INGOT_BROKER_USERNAME" value-name:"NAME" description:"User name for the broker"`
	Password string `long:"password" env:"INGOT_BROKER_PASSWORD" value-name:"PASSWORD" default-mask:"-" description:"Password for the broker; use the variable to keep it out of the process list"`
	Service  string `long:"service" value-name:"NAME" description:"Check only this offering"`
	Plan     string `long:"plan" value-name:"NAME" description:"Plan to check (default: a free plan of each offering)"`
	JSON     bool   `long:"json" description:"Write the report as JSON"`
	Args     struct {
		URL string `positional-arg-name:"URL" description:"URL of the broker, without /v2"`
	} `positional-args:"yes" required:"yes"`
}

// errNotConforming needs no message: the report explains it.
var errNotConforming = errors.New("the broker does not conform")

// checkBroker checks a broker and prints the report.
func (p *process) checkBroker(o brokerCheckOptions) error {
	ctx, stop := p.untilSignal()
	defer stop()
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
