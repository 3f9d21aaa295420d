// For the other folders of this package.

export { isLostGroup, plannedMoves } from './planned-moves.js'
export { type Regrouped, regroup } from './regroup.js'
