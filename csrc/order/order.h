/* order/order.h - what the loader asks of an order beyond which row stands where. Internal. */
#ifndef UR_ORDER_H
#define UR_ORDER_H

#include <stdbool.h>

#include "unirecord.h"

/* Whether any row may stand anywhere: a shuffle of all rows. */
bool ur_order_is_whole(const ur_order *order);

#endif
