package api

import "ingot/internal/platform"

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
	return &operationBody{o.Type, o.State, o.Description, timestamp(o.Created), timestamp(o.Updated)}
}

// mayChangeCatalog returns an error unless the caller is an administrator or a
// developer of the broker's space.
func (req *request) mayChangeCatalog(broker *platform.ServiceBroker) error {
	if broker.SpaceGUID == "" {
		if req.caller.Admin {
			return nil
		}
		return forbidden()
	}
	_, err := req.caller.mayInSpace(req.tx, broker.SpaceGUID, platform.Develop)
	return err
}
