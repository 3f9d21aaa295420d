export { openRabbitmq, type RabbitmqOptions } from './open-rabbitmq.js'
export { RabbitmqBus } from './rabbitmq-bus.js'
