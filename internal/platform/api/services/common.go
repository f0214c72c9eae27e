package services

import (
	"ingot/internal/platform"
	"ingot/internal/platform/api/rest"
)

type operationBody struct {
	Type        string                  `json:"type"`
	State       platform.OperationState `json:"state"`
	Description string                  `json:"description"`
	Created     string                  `json:"created_at"`
	Updated     string                  `json:"updated_at"`
}

func presentOperation(o platform.LastOperation) *operationBody {
	if o.Type == "" {
		return nil
	}
	return &operationBody{o.Type, o.State, o.Description, rest.Timestamp(o.Created), rest.Timestamp(o.Updated)}
}

// mayChangeCatalog returns an error unless the caller is an administrator or a
// developer of the broker's space.
func mayChangeCatalog(req *rest.Request, broker *platform.ServiceBroker) error {
	if broker.SpaceGUID == "" {
		if req.Caller.Admin {
			return nil
		}
		return platform.Forbidden()
	}
	_, err := req.Caller.MayInSpace(req.Tx, broker.SpaceGUID, platform.Develop)
	return err
}

// strings are never null in a response.
func notNull(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// brokerOfPlan returns the broker of a plan; nil without a plan.
func brokerOfPlan(req *rest.Request, guid string) (*platform.ServiceBroker, error) {
	if guid == "" {
		return nil, nil
	}
	plan, err := req.Tx.ServicePlans().Get(guid)
	if err != nil {
		return nil, err
	}
	return brokerOf(req, plan)
}

// brokerOf returns the broker of a plan.
func brokerOf(req *rest.Request, plan *platform.ServicePlan) (*platform.ServiceBroker, error) {
	o, err := req.Tx.ServiceOfferings().Get(plan.OfferingGUID)
	if err != nil {
		return nil, err
	}
	return req.Tx.ServiceBrokers().Get(o.BrokerGUID)
}

// secretsIn returns an error if the caller may not see credentials in the space.
func secretsIn(req *rest.Request, spaceGUID string) error {
	_, err := req.Caller.MayInSpace(req.Tx, spaceGUID, platform.ReadSecrets)
	return err
}
