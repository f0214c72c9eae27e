package actions

import "ingot/internal/platform"

// CreateJob stores a job whose work was done or refused before it was answered.
func (p *Platform) CreateJob(tx platform.Tx, j platform.Job) (*platform.Job, error) {
	return &j, tx.Jobs().Insert(&j)
}
