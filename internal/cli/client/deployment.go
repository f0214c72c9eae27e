package client

// Deployment replaces the instances of an app step by step.
type Deployment struct {
	GUID     string `json:"guid"`
	Strategy string `json:"strategy"`
	Status   struct {
		Value   string `json:"value"`
		Reason  string `json:"reason"`
		Details struct {
			LastChange string `json:"last_status_change"`
			Error      string `json:"error"`
		} `json:"details"`
		Canary *struct {
			Steps struct {
				Current int `json:"current"`
				Total   int `json:"total"`
			} `json:"steps"`
		} `json:"canary"`
	} `json:"status"`
	Options struct {
		MaxInFlight int `json:"max_in_flight"`
	} `json:"options"`
	NewProcesses []struct {
		GUID string `json:"guid"`
		Type string `json:"type"`
	} `json:"new_processes"`
}

// Over reports whether the deployment makes no further progress on its own.
func (d *Deployment) Over() bool { return d.Status.Value == "FINALIZED" || d.Status.Reason == "PAUSED" }
